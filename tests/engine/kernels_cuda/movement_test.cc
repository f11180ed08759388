// Ops that only move elements, and fills.
#include <gtest/gtest.h>

#include "tests/engine/kernels_cuda/op_case.h"

namespace rivulet::testing {
namespace {

std::function<std::vector<Tensor>(uint32_t)> Of(Shape shape, std::vector<Tensor> constants) {
  return [=](uint32_t seed) {
    std::vector<Tensor> inputs = {Floats(shape, seed)};
    inputs.insert(inputs.end(), constants.begin(), constants.end());
    return inputs;
  };
}
Tensor Pairs(std::vector<int32_t> values) {
  const auto count = static_cast<int64_t>(values.size());
  return Tensor::Of<int32_t>(Shape{count / 2, 2}, std::span<const int32_t>(values));
}

TEST(GpuMovementTest, OneInput_IsTheCpus) {
  const std::vector<OpCase> cases = {
      {.op = "Transpose", .inputs = Of({3, 4, 5}, {Ints({2, 0, 1})}), .constants = {1}},
      {.op = "Transpose", .inputs = Of({40, 33}, {Ints({1, 0})}), .constants = {1}},
      {.op = "Transpose", .inputs = Of({0, 3}, {Ints({1, 0})}), .constants = {1}},
      {.op = "Slice", .inputs = Of({6, 7}, {Ints({1, 2}), Ints({4, -1})}), .constants = {1, 2}},
      {.op = "StridedSlice",
       .inputs = Of({2, 8, 8, 4}, {Ints({0, 0, 0, 0}), Ints({0, 0, 0, 0}), Ints({1, 2, 2, 1})}),
       .attrs = {{"begin_mask", int64_t{15}}, {"end_mask", int64_t{15}}},
       .constants = {1, 2, 3}},
      {.op = "Pad", .inputs = Of({2, 3, 4}, {Pairs({0, 0, 1, 2, 3, 0})}), .constants = {1}},
      {.op = "PadV2", .inputs = Of({2, 3}, {Pairs({1, 0, 1, 2}), Tensor::Scalar<float>(7)}), .constants = {1}},
      {.op = "MirrorPad",
       .inputs = Of({4, 3}, {Pairs({1, 2, 1, 1})}),
       .attrs = {{"mode", std::string("REFLECT")}},
       .constants = {1}},
      {.op = "Tile", .inputs = Of({2, 3}, {Ints({3, 2})}), .constants = {1}},
      {.op = "BroadcastTo", .inputs = Of({3, 1}, {Ints({2, 3, 4})}), .constants = {1}},
      {.op = "BroadcastTo", .inputs = Of({}, {Ints({300})}), .constants = {1}},
      {.op = "Unpack", .inputs = Of({4, 3}, {}), .attrs = {{"num", int64_t{3}}, {"axis", int64_t{1}}}},
      {.op = "ZerosLike", .inputs = Of({5, 3}, {})},
      {.op = "OnesLike", .inputs = Of({5, 3}, {})},
  };
  for (const OpCase& c : cases) CheckOnGpu(c);
}

TEST(GpuMovementTest, SeveralTensors_AreTheCpus) {
  CheckOnGpu({.op = "ConcatV2",
              .inputs =
                  [](uint32_t s) {
                    return std::vector{Floats({2, 3}, s), Floats({2, 5}, s + 1), Floats({2, 0}, s), Int(1)};
                  },
              .attrs = {{"N", int64_t{3}}},
              .constants = {3}});
  CheckOnGpu({.op = "Pack",
              .inputs =
                  [](uint32_t s) {
                    return std::vector{Doubles({4}, s), Doubles({4}, s + 1)};
                  },
              .attrs = {{"N", int64_t{2}}, {"axis", int64_t{1}}}});
  CheckOnGpu({.op = "Split",
              .inputs =
                  [](uint32_t s) {
                    return std::vector{Int(-1), Floats({3, 6}, s)};
                  },
              .attrs = {{"num_split", int64_t{3}}},
              .constants = {0}});
  CheckOnGpu({.op = "SplitV",
              .inputs =
                  [](uint32_t s) {
                    return std::vector{Floats({3, 6}, s), Ints({1, 5}), Int(1)};
                  },
              .attrs = {{"num_split", int64_t{2}}},
              .constants = {1, 2}});
  CheckOnGpu({.op = "StridedSliceGrad",
              .inputs =
                  [](uint32_t s) {
                    return std::vector{Ints({2, 8, 8, 4}), Ints({0, 0, 0, 0}), Ints({0, 0, 0, 0}), Ints({1, 2, 2, 1}),
                                       Floats({2, 4, 4, 4}, s)};
                  },
              .attrs = {{"begin_mask", int64_t{15}}, {"end_mask", int64_t{15}}},
              .constants = {0, 1, 2, 3}});
  CheckOnGpu({.op = "Fill",
              .inputs =
                  [](uint32_t s) {
                    return std::vector{Ints({3, 100}), Floats({}, s)};
                  },
              .constants = {0}});
}

TEST(GpuMovementTest, ElementsOfEverySize) {
  for (const DType dtype : {DType::kBool, DType::kUint8, DType::kInt32, DType::kInt64})
    CheckOnGpu({.op = "Transpose",
                .inputs =
                    [&](uint32_t s) {
                      return std::vector{Integers(dtype, {5, 9}, s, 0, 2), Ints({1, 0})};
                    },
                .constants = {1},
                .name = std::string(Name(dtype))});
}

}  // namespace
}  // namespace rivulet::testing
