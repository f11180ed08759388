// Reductions, positions of extremes, softmax and cross-entropies.
#include <gtest/gtest.h>

#include <limits>

#include "tests/engine/kernels_cuda/op_case.h"

namespace rivulet::testing {
namespace {

struct Axes {
  Shape shape;
  std::vector<int32_t> axes;
};
const std::vector<Axes>& SomeAxes() {
  static const std::vector<Axes> some = {
      {{7}, {0}},       {{40, 33}, {0}},      {{40, 33}, {1}},         {{40, 33}, {0, 1}},
      {{3, 5, 7}, {1}}, {{3, 5, 7}, {0, 2}},  {{2, 8, 8, 16}, {1, 2}}, {{4, 3}, {}},
      {{}, {}},         {{0, 4}, {0}},        {{3, 0}, {0}},           {{9000}, {0}},
      {{5000, 3}, {0}}, {{2, 10, 1, 1}, {2}},
  };
  return some;
}

TEST(GpuReductionTest, Reductions_OverAnyAxes_AreTheCpus) {
  for (const auto& [shape, axes] : SomeAxes()) {
    for (const char* op : {"Sum", "Mean", "Max", "Min", "EuclideanNorm"}) {
      CheckOnGpu({.op = op,
                  .inputs =
                      [&](uint32_t seed) {
                        return std::vector{Floats(shape, seed), Ints(axes)};
                      },
                  .constants = {1},
                  .tolerance = 1e-6,
                  .name = shape.ToString()});
    }
  }
  for (const char* op : {"Sum", "Mean", "Prod"}) {
    CheckOnGpu({.op = op,
                .inputs =
                    [](uint32_t seed) {
                      return std::vector{Integers(DType::kInt64, {6, 40}, seed, -9, 9), Ints({1})};
                    },
                .constants = {1}});
    CheckOnGpu({.op = op,
                .inputs =
                    [](uint32_t seed) {
                      return std::vector{Doubles({6, 40}, seed), Ints({0})};
                    },
                .constants = {1},
                .tolerance = 1e-14});
  }
  for (const char* op : {"All", "Any"})
    CheckOnGpu({.op = op,
                .inputs =
                    [](uint32_t seed) {
                      return std::vector{Integers(DType::kBool, {9, 4}, seed, 0, 2), Ints({1})};
                    },
                .constants = {1}});
}

TEST(GpuReductionTest, WholeTensors) {
  CheckOnGpu({.op = "L2Loss",
              .inputs =
                  [](uint32_t s) {
                    return std::vector{Floats({77, 13}, s)};
                  },
              .tolerance = 1e-6});
  for (const float value : {1.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    CheckOnGpu({.op = "AllFinite", .inputs = [&](uint32_t s) {
                  Tensor x = Floats({9001}, s);
                  if (s % 2 == 1) x.flat<float>()[8500] = value;
                  return std::vector{x};
                }});
}

TEST(GpuReductionTest, Extremes_KeepNaN) {
  const auto with_nan = [](uint32_t seed) {
    Tensor x = Floats({4, 50}, seed);
    x.flat<float>()[60] = std::numeric_limits<float>::quiet_NaN();
    x.flat<float>()[150] = std::numeric_limits<float>::quiet_NaN();
    return x;
  };
  for (const char* op : {"Max", "Min", "Sum"})
    CheckOnGpu({.op = op,
                .inputs =
                    [&](uint32_t seed) {
                      return std::vector{with_nan(seed), Ints({1})};
                    },
                .constants = {1},
                .tolerance = 1e-6});
  for (const char* op : {"ArgMax", "ArgMin"})
    CheckOnGpu({.op = op,
                .inputs =
                    [&](uint32_t seed) {
                      return std::vector{with_nan(seed), Int(1)};
                    },
                .constants = {1}});
}

TEST(GpuReductionTest, PositionsOfExtremes_FirstOfTies) {
  for (const char* op : {"ArgMax", "ArgMin"}) {
    for (const int axis : {0, 1, -1})
      CheckOnGpu({.op = op,
                  .inputs =
                      [&](uint32_t seed) {
                        return std::vector{Integers(DType::kInt32, {6, 5, 4}, seed, 0, 3), Int(axis)};
                      },
                  .constants = {1}});
    CheckOnGpu({.op = op,
                .inputs =
                    [&](uint32_t seed) {
                      return std::vector{Floats({70, 10}, seed), Int(1)};
                    },
                .attrs = {{"output_type", DType::kInt32}},
                .constants = {1}});
  }
}

TEST(GpuReductionTest, BiasAddGrad_BothLayouts) {
  for (const Shape& shape : {Shape{40, 7}, Shape{3, 5, 5, 33}, Shape{0, 4}, Shape{2500, 3}})
    CheckOnGpu(
        {.op = "BiasAddGrad", .inputs = [&](uint32_t s) { return std::vector{Floats(shape, s)}; }, .tolerance = 5e-6});
  CheckOnGpu({.op = "BiasAddGrad",
              .inputs =
                  [](uint32_t s) {
                    return std::vector{Floats({3, 5, 4, 4}, s)};
                  },
              .attrs = {{"data_format", std::string("NCHW")}},
              .tolerance = 5e-6});
}

TEST(GpuSoftmaxTest, Rows_AreTheCpus) {
  for (const Shape& shape : {Shape{1, 1}, Shape{10, 10}, Shape{7, 90}, Shape{3, 4, 300}, Shape{0, 5}, Shape{9}})
    for (const char* op : {"Softmax", "LogSoftmax"})
      CheckOnGpu({.op = op, .inputs = [&](uint32_t s) { return std::vector{Floats(shape, s)}; }, .tolerance = 1e-6});
}

TEST(GpuSoftmaxTest, InfiniteAndNaN_AsOnTheCpu) {
  CheckOnGpu({.op = "Softmax",
              .inputs =
                  [](uint32_t s) {
                    Tensor x = Floats({4, 20}, s);
                    x.flat<float>()[3] = std::numeric_limits<float>::infinity();
                    x.flat<float>()[23] = std::numeric_limits<float>::quiet_NaN();
                    x.flat<float>()[43] = -std::numeric_limits<float>::infinity();
                    return std::vector{x};
                  },
              .tolerance = 1e-6});
}

TEST(GpuSoftmaxTest, CrossEntropies_AreTheCpus) {
  for (const int64_t classes : {1, 10, 62, 90}) {
    for (const DType label : {DType::kInt32, DType::kInt64})
      CheckOnGpu({.op = "SparseSoftmaxCrossEntropyWithLogits",
                  .inputs =
                      [&](uint32_t s) {
                        return std::vector{Floats({11, classes}, s), Integers(label, {11}, s, 0, classes)};
                      },
                  .tolerance = 1e-6});
    CheckOnGpu({.op = "SoftmaxCrossEntropyWithLogits",
                .inputs =
                    [&](uint32_t s) {
                      return std::vector{Floats({11, classes}, s), Floats({11, classes}, s + 1)};
                    },
                .tolerance = 2e-6});
    CheckOnGpu({.op = "SoftmaxCrossEntropyWithLogits",
                .inputs =
                    [&](uint32_t s) {
                      return std::vector{Floats({11, classes}, s), Floats({1, classes}, s + 1)};
                    },
                .tolerance = 2e-6});
  }
}

}  // namespace
}  // namespace rivulet::testing
