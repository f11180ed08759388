// Matrix products in every tile and layout.
#include <gtest/gtest.h>

#include <limits>

#include "tests/engine/kernels_cuda/op_case.h"

namespace rivulet::testing {
namespace {

struct Sizes {
  int64_t m, n, k;
};

Tensor Matrix(int64_t rows, int64_t columns, bool turned, uint32_t seed, bool doubles = false) {
  const Shape shape = turned ? Shape{columns, rows} : Shape{rows, columns};
  return doubles ? Doubles(shape, seed) : Floats(shape, seed);
}

// Rows and columns around the edges of every tile.
TEST(GpuProductTest, MatMul_EveryTileAndLayout_IsTheCpus) {
  const std::vector<Sizes> sizes = {{1, 1, 1},    {10, 10, 37}, {16, 64, 16},  {17, 65, 17}, {65, 33, 20},
                                    {70, 31, 9},  {3, 5, 0},    {0, 4, 3},     {64, 70, 33}, {520, 65, 5},
                                    {515, 130, 18}};
  for (const auto& [m, n, k] : sizes) {
    for (const bool a : {false, true}) {
      for (const bool b : {false, true}) {
        CheckOnGpu({.op = "MatMul",
                    .inputs = [=, m = m, n = n, k = k](
                                  uint32_t s) { return std::vector{Matrix(m, k, a, s), Matrix(k, n, b, s + 50)}; },
                    .attrs = {{"transpose_a", a}, {"transpose_b", b}},
                    .tolerance = 1e-5,
                    .name = fmt::format("{}x{}x{}{}{}", m, n, k, a ? " a turned" : "", b ? " b turned" : "")});
      }
    }
  }
}

TEST(GpuProductTest, MatMul_Doubles) {
  for (const bool turned : {false, true})
    CheckOnGpu({.op = "MatMul",
                .inputs = [=](uint32_t s) {
                  return std::vector{Matrix(66, 40, turned, s, true), Matrix(40, 70, turned, s + 50, true)};
                },
                .attrs = {{"transpose_a", turned}, {"transpose_b", turned}},
                .tolerance = 1e-13});
}

TEST(GpuProductTest, FusedMatMul_BiasAndActivation_AreTheCpus) {
  for (const std::vector<std::string>& fused : std::vector<std::vector<std::string>>{
           {"BiasAdd"}, {"BiasAdd", "Relu"}, {"BiasAdd", "Relu6"}}) {
    for (const auto& [m, n, k] : {Sizes{10, 20, 50}, Sizes{70, 90, 12}})
      CheckOnGpu({.op = "_FusedMatMul",
                  .inputs =
                      [=, m = m, n = n, k = k](uint32_t s) {
                        Tensor bias = Floats({n}, s + 1);
                        bias.flat<float>()[1] = std::numeric_limits<float>::quiet_NaN();
                        return std::vector{Floats({m, k}, s), Floats({k, n}, s + 9), bias};
                      },
                  .attrs = {{"num_args", int64_t{1}}, {"fused_ops", fused}},
                  .tolerance = 1e-5});
  }
}

TEST(GpuProductTest, BatchMatMul_AndOneForAll) {
  for (const bool turned : {false, true}) {
    CheckOnGpu({.op = "BatchMatMulV2",
                .inputs = [=](uint32_t s) {
                  return std::vector{Floats(turned ? Shape{2, 3, 7, 18} : Shape{2, 3, 18, 7}, s),
                                     Floats(turned ? Shape{2, 3, 20, 7} : Shape{2, 3, 7, 20}, s + 3)};
                },
                .attrs = {{"adj_x", turned}, {"adj_y", turned}},
                .tolerance = 1e-5});
  }
  CheckOnGpu({.op = "BatchMatMulV2",
              .inputs = [](uint32_t s) { return std::vector{Floats({4, 5, 6}, s), Floats({6, 3}, s + 3)}; },
              .tolerance = 1e-5});
}

TEST(GpuProductTest, BatchMatMul_RepeatingAlongSomeAxes_SaysTheMend) {
  const Status status = PrepareOnGpu({.op = "BatchMatMulV2", .inputs = [](uint32_t s) {
                                        return std::vector{Floats({2, 1, 5, 6}, s), Floats({1, 3, 6, 3}, s + 3)};
                                      }});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(),
            "products of 2 and 3 matrices that repeat along some axes alone, on a GPU; broadcast them first");
}

// What a lane of infinities and NaN computes reaches no other.
TEST(GpuProductTest, MatMul_NotFinite_StaysInItsRowAndLane) {
  CheckOnGpu({.op = "MatMul",
              .inputs =
                  [](uint32_t s) {
                    Tensor a = Floats({20, 20}, s);
                    if (s == 1) a.flat<float>()[45] = std::numeric_limits<float>::quiet_NaN();
                    return std::vector{a, Floats({20, 30}, s + 1)};
                  },
              .tolerance = 1e-5});
}

}  // namespace
}  // namespace rivulet::testing
