// Steps of optimisers, rows by index, random numbers.
#include <gtest/gtest.h>

#include "tests/emulated_gpu/emulated_backend.h"
#include "tests/engine/kernels_cuda/op_case.h"

namespace rivulet::testing {
namespace {

// A variable, `slots` of its size that are not negative, `scalars`, and the gradient at place `gradient` among the
// inputs that are no variables.
OpCase Optimizer(const char* op, int slots, std::vector<double> scalars, int gradient, DType dtype,
                 AttrMap attrs = {}) {
  const auto inputs = [=](uint32_t seed) {
    const auto of = [&](Tensor floats, bool positive) {
      for (float& value : floats.flat<float>()) value = positive ? value * value + 0.01f : value;
      if (dtype == DType::kFloat32) return floats;
      Tensor doubles(DType::kFloat64, floats.shape());
      std::ranges::copy(floats.flat<float>(), doubles.flat<double>().begin());
      return doubles;
    };
    const Shape shape{300};
    std::vector<Tensor> all;
    for (int i = 0; i <= slots; ++i) all.push_back(of(Floats(shape, seed + static_cast<uint32_t>(i) * 8), i > 0));
    std::vector<Tensor> others;
    for (const double scalar : scalars)
      others.push_back(dtype == DType::kFloat32 ? Tensor::Scalar<float>(static_cast<float>(scalar))
                                                : Tensor::Scalar<double>(scalar));
    others.insert(others.begin() + gradient, of(Floats(shape, seed + 100), false));
    all.insert(all.end(), others.begin(), others.end());
    return all;
  };
  std::vector<int> variables;
  for (int i = 0; i <= slots; ++i) variables.push_back(i);
  return {.op = op, .inputs = inputs, .attrs = std::move(attrs), .variables = variables};
}

TEST(GpuTrainingTest, Steps_HaveTheCpusBits) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    CheckOnGpu(Optimizer("ResourceApplyGradientDescent", 0, {0.1}, 1, dtype));
    for (const bool nesterov : {false, true}) {
      CheckOnGpu(Optimizer("ResourceApplyMomentum", 1, {0.1, 0.9}, 1, dtype, {{"use_nesterov", nesterov}}));
      CheckOnGpu(Optimizer("ResourceApplyAdam", 2, {0.9, 0.999, 0.01, 0.9, 0.999, 1e-7}, 6, dtype,
                           {{"use_nesterov", nesterov}}));
    }
    for (const bool slots : {false, true}) {
      CheckOnGpu(Optimizer("ResourceApplyAdagrad", 1, {0.1}, 1, dtype, {{"update_slots", slots}}));
      CheckOnGpu(Optimizer("ResourceApplyAdagradV2", 1, {0.1, 1e-6}, 2, dtype, {{"update_slots", slots}}));
    }
    CheckOnGpu(Optimizer("ResourceApplyAdadelta", 2, {0.1, 0.95, 1e-6}, 3, dtype));
    CheckOnGpu(Optimizer("ResourceApplyRMSProp", 2, {0.1, 0.9, 0.5, 1e-6}, 4, dtype));
    CheckOnGpu(Optimizer("ResourceApplyCenteredRMSProp", 3, {0.1, 0.9, 0.5, 0.5}, 4, dtype));
    CheckOnGpu(Optimizer("ResourceApplyAdamW", 2, {0.9, 0.999, 0.01, 0.9, 0.999, 1e-7, 0.05}, 7, dtype));
    CheckOnGpu(Optimizer("ResourceApplyYogi", 2, {0.9, 0.999, 0.01, 0.9, 0.999, 1e-7}, 6, dtype));
  }
}

TEST(GpuTrainingTest, AssignAddAndSub_HaveTheCpusBits) {
  for (const char* op : {"AssignAddVariableOp", "AssignSubVariableOp"}) {
    CheckOnGpu({.op = op,
                .inputs =
                    [](uint32_t s) {
                      return std::vector{Floats({700}, s), Floats({700}, s + 1)};
                    },
                .variables = {0}});
    CheckOnGpu(
        {.op = op,
         .inputs =
             [](uint32_t s) {
               return std::vector{Integers(DType::kInt64, {7}, s, -5, 5), Integers(DType::kInt64, {7}, s + 1, -5, 5)};
             },
         .variables = {0}});
  }
}

TEST(GpuTrainingTest, Optimizer_ScalarThatIsNone_IsRefused) {
  const Status status = PrepareOnGpu({.op = "ResourceApplyGradientDescent",
                                      .inputs =
                                          [](uint32_t s) {
                                            return std::vector{Floats({4}, s), Floats({}, s), Floats({5}, s)};
                                          },
                                      .variables = {0}});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
}

TEST(GpuGatherTest, RowsByIndex_AreTheCpus) {
  for (const DType index : {DType::kInt32, DType::kInt64}) {
    CheckOnGpu({.op = "GatherV2",
                .inputs =
                    [&](uint32_t s) {
                      return std::vector{Floats({9, 5}, s), Integers(index, {4, 3}, s, 0, 9), Int(0)};
                    },
                .constants = {2}});
    CheckOnGpu({.op = "GatherV2",
                .inputs =
                    [&](uint32_t s) {
                      return std::vector{Doubles({3, 6, 4}, s), Integers(index, {5}, s, 0, 6), Int(1)};
                    },
                .constants = {2}});
    CheckOnGpu({.op = "GatherV2",
                .inputs =
                    [&](uint32_t s) {
                      return std::vector{Floats({3, 2, 6, 4}, s), Integers(index, {3, 5}, s, 0, 6), Int(2)};
                    },
                .attrs = {{"batch_dims", int64_t{1}}},
                .constants = {2}});
    CheckOnGpu({.op = "UnsortedSegmentSum",
                .inputs =
                    [&](uint32_t s) {
                      return std::vector{Floats({6, 4, 5}, s), Integers(index, {6, 4}, s, -1, 7), Int(7)};
                    },
                .constants = {2}});
    CheckOnGpu({.op = "OneHot",
                .inputs =
                    [&](uint32_t s) {
                      return std::vector{Integers(index, {6}, s, -1, 5), Int(4), Tensor::Scalar<float>(1),
                                         Tensor::Scalar<float>(0)};
                    },
                .constants = {1}});
  }
}

TEST(GpuRandomTest, RandomUniform_DrawsWhatTheCpuDraws) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64})
    for (const int32_t count : {1, 7, 1030})
      CheckOnGpu({.op = "RandomUniform",
                  .inputs = [&](uint32_t) { return std::vector{Ints({count})}; },
                  .attrs = {{"dtype", dtype}},
                  .constants = {0}});
}

// By the device's logarithm: within a float's last place, and a double's last few.
TEST(GpuRandomTest, NormalDraws_AreTheCpus) {
  for (const std::string op : {"RandomStandardNormal", "TruncatedNormal"})
    for (const DType dtype : {DType::kFloat32, DType::kFloat64})
      for (const int32_t count : {1, 7, 1030})
        CheckOnGpu({.op = op,
                    .inputs = [&](uint32_t) { return std::vector{Ints({count})}; },
                    .attrs = {{"dtype", dtype}},
                    .constants = {0},
                    .tolerance = dtype == DType::kFloat32 ? 1.2e-7 : 1e-14});
}

}  // namespace
}  // namespace rivulet::testing
