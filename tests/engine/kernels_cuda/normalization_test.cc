// Batch, group, instance, layer and root mean square normalisation, forward and back.
#include <gtest/gtest.h>

#include "tests/engine/kernels_cuda/op_case.h"

namespace rivulet::testing {
namespace {

// Positive, for variances and inverse deviations.
Tensor Positive(Tensor tensor) {
  for (float& value : tensor.flat<float>()) value = value * value + 0.1f;
  return tensor;
}
// Far from zero beside its deviation.
Tensor Shifted(Tensor tensor, float by) {
  for (float& value : tensor.flat<float>()) value += by;
  return tensor;
}

struct Images {
  Shape shape;
  int64_t channels;
  std::string format = "NHWC";
};
const std::vector<Images>& SomeImages() {
  static const std::vector<Images> some = {
      {{2, 5, 6, 8}, 8}, {{3, 1, 1, 40}, 40}, {{2, 40, 30, 4}, 4}, {{2, 8, 5, 6}, 8, "NCHW"}};
  return some;
}

TEST(GpuNormalizationTest, BatchNorm_TrainingAndGiven_AreTheCpus) {
  for (const auto& [shape, channels, format] : SomeImages()) {
    for (const bool training : {true, false}) {
      for (const float factor : {1.0f, 0.1f}) {
        const AttrMap attrs = {{"epsilon", 0.001f},
                               {"is_training", training},
                               {"exponential_avg_factor", factor},
                               {"data_format", format}};
        const Shape each = {channels};
        CheckOnGpu({.op = "FusedBatchNormV3",
                    .inputs =
                        [&](uint32_t s) {
                          return std::vector{Shifted(Floats(shape, s), 3), Floats(each, s + 1), Floats(each, s + 2),
                                             Floats(each, s + 3), Positive(Floats(each, s + 4))};
                        },
                    .attrs = attrs,
                    .tolerance = 1e-5,
                    .name = fmt::format("{} {} {}", shape.ToString(), training ? "training" : "given", factor)});
      }
      CheckOnGpu({.op = "FusedBatchNormGradV3",
                  .inputs =
                      [&](uint32_t s) {
                        const Shape each = {channels};
                        return std::vector{Floats(shape, s),    Floats(shape, s + 1),          Floats(each, s + 2),
                                           Floats(each, s + 3), Positive(Floats(each, s + 4)), Floats({0}, s)};
                      },
                  .attrs = {{"epsilon", 0.001f}, {"is_training", training}, {"data_format", format}},
                  .tolerance = 2e-5,
                  .name = fmt::format("{} {}", shape.ToString(), training ? "training" : "given")});
    }
  }
}

TEST(GpuNormalizationTest, GroupNorm_AnyGroups_IsTheCpus) {
  for (const auto& [shape, channels, format] : SomeImages()) {
    for (const int64_t groups : {int64_t{1}, int64_t{4}, channels}) {
      const AttrMap attrs = {{"epsilon", 0.001f}, {"num_groups", groups}, {"data_format", format}};
      const Shape each = {channels}, of_groups = {shape.dim(0), groups};
      const std::string name = fmt::format("{} {} groups", shape.ToString(), groups);
      CheckOnGpu({.op = "GroupNorm",
                  .inputs =
                      [&](uint32_t s) {
                        return std::vector{Shifted(Floats(shape, s), 2), Floats(each, s + 1), Floats(each, s + 2)};
                      },
                  .attrs = attrs,
                  .tolerance = 1e-5,
                  .name = name});
      CheckOnGpu({.op = "GroupNormGrad",
                  .inputs =
                      [&](uint32_t s) {
                        return std::vector{Floats(shape, s), Floats(shape, s + 1), Floats(each, s + 2),
                                           Floats(of_groups, s + 3), Positive(Floats(of_groups, s + 4))};
                      },
                  .attrs = attrs,
                  .tolerance = 2e-5,
                  .name = name});
    }
  }
}

TEST(GpuNormalizationTest, InstanceNorm_IsTheCpus) {
  CheckOnGpu({.op = "InstanceNorm",
              .inputs =
                  [](uint32_t s) {
                    return std::vector{Floats({2, 5, 6, 3}, s), Floats({3}, s + 1), Floats({3}, s + 2)};
                  },
              .attrs = {{"epsilon", 0.001f}},
              .tolerance = 1e-5});
}

TEST(GpuNormalizationTest, LayerAndRmsNorm_AnyRows_AreTheCpus) {
  for (const Shape& shape : {Shape{2, 10, 64}, Shape{7, 33}, Shape{1, 1}, Shape{300, 3}, Shape{0, 5}}) {
    const Shape width = {shape.dim(shape.rank() - 1)};
    Shape rows = shape;
    rows.set_dim(shape.rank() - 1, 1);
    const AttrMap attrs = {{"epsilon", 0.001f}, {"begin_norm_axis", int64_t{-1}}};
    CheckOnGpu({.op = "LayerNorm",
                .inputs =
                    [&](uint32_t s) {
                      return std::vector{Shifted(Floats(shape, s), 3), Floats(width, s + 1), Floats(width, s + 2)};
                    },
                .attrs = attrs,
                .tolerance = 1e-5,
                .name = shape.ToString()});
    CheckOnGpu({.op = "RmsNorm",
                .inputs =
                    [&](uint32_t s) {
                      return std::vector{Floats(shape, s), Floats(width, s + 1)};
                    },
                .attrs = attrs,
                .tolerance = 1e-5,
                .name = shape.ToString()});
    CheckOnGpu({.op = "LayerNormGrad",
                .inputs =
                    [&](uint32_t s) {
                      return std::vector{Floats(shape, s), Floats(shape, s + 1), Floats(width, s + 2),
                                         Floats(rows, s + 3), Positive(Floats(rows, s + 4))};
                    },
                .attrs = attrs,
                .tolerance = 5e-5,
                .name = shape.ToString()});
    CheckOnGpu({.op = "RmsNormGrad",
                .inputs =
                    [&](uint32_t s) {
                      return std::vector{Floats(shape, s), Floats(shape, s + 1), Floats(width, s + 2),
                                         Positive(Floats(rows, s + 4))};
                    },
                .attrs = attrs,
                .tolerance = 5e-5,
                .name = shape.ToString()});
  }
}

// More rows than one chunk of a sum has.
TEST(GpuNormalizationTest, LayerNormGrad_ManyRows_JoinsItsChunks) {
  CheckOnGpu({.op = "RmsNormGrad",
              .inputs =
                  [](uint32_t s) {
                    return std::vector{Floats({2100, 2}, s), Floats({2100, 2}, s + 1), Floats({2}, s + 2),
                                       Positive(Floats({2100, 1}, s + 4))};
                  },
              .attrs = {{"epsilon", 0.001f}, {"begin_norm_axis", int64_t{-1}}},
              .tolerance = 1e-4});
}

}  // namespace
}  // namespace rivulet::testing
