// MatMul against plain float64 loops: every choice of the table, every instruction set, odd shapes.
#include <gmock/gmock.h>

#include "engine/kernels/cpu/product/small_matmul.h"
#include "tests/engine/kernels/every_target.h"
#include "tests/engine/kernels/run_op.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

using ::testing::HasSubstr;

struct Case {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
};

std::vector<double> Reference(const Case& c, const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> product(static_cast<size_t>(c.m * c.n), 0);
  for (int64_t i = 0; i < c.m; ++i) {
    for (int64_t j = 0; j < c.n; ++j) {
      for (int64_t k = 0; k < c.k; ++k) {
        product[static_cast<size_t>(i * c.n + j)] += a[static_cast<size_t>(c.transpose_a ? k * c.m + i : i * c.k + k)] *
                                                     b[static_cast<size_t>(c.transpose_b ? j * c.k + k : k * c.n + j)];
      }
    }
  }
  return product;
}

template <typename T>
void Check(const Case& c, KernelPolicy policy, double epsilon, const std::string& target, size_t misalign = 0) {
  const Tensor a = RandomTensor<T>(c.transpose_a ? Shape{c.k, c.m} : Shape{c.m, c.k}, 1);
  const Tensor b = RandomTensor<T>(c.transpose_b ? Shape{c.n, c.k} : Shape{c.k, c.n}, 2);
  const auto run =
      RunOp("MatMul", {a, b}, {{"transpose_a", c.transpose_a}, {"transpose_b", c.transpose_b}}, policy, {}, misalign);
  ASSERT_OK(run);
  // Terms are at most 1, so that k roundings bound the error.
  ExpectNear<T>(run->outputs[0], Reference(c, AsDoubles<T>(a), AsDoubles<T>(b)), epsilon * static_cast<double>(c.k + 1),
                fmt::format("{} {} [{}x{}x{}] {}{}", target, run->implementation, c.m, c.n, c.k,
                            c.transpose_a ? "T" : "N", c.transpose_b ? "T" : "N"));
}

std::vector<Case> Shapes() {
  std::vector<Case> cases;
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                                                       {1, 10, 784},
                                                                       {10, 10, 33},
                                                                       {10, 200, 71},
                                                                       {3, 5, 7},
                                                                       {12, 32, 64},
                                                                       {13, 33, 65},
                                                                       {16, 47, 130},
                                                                       {17, 31, 29},
                                                                       {65, 17, 10},
                                                                       {100, 10, 1},
                                                                       {40, 50, 60},
                                                                       {41, 9, 100},
                                                                       {65, 12, 33},
                                                                       {5, 0, 3},
                                                                       {0, 4, 3},
                                                                       {4, 3, 0}}) {
        cases.push_back({m, n, k, transpose_a, transpose_b});
      }
    }
  }
  return cases;
}

TEST(MatMul, Float32OnEveryTarget_IsTheFloat64Product) {
  OnEveryTarget([](const std::string& target) {
    for (const Case& c : Shapes()) Check<float>(c, {}, 1.2e-7, target);
  });
}

TEST(MatMul, UnalignedOperands_AreMultipliedRightly) {
  OnEveryTarget([](const std::string& target) {
    for (const Case& c : Shapes()) Check<float>(c, {}, 1.2e-7, target, 4);
  });
}

TEST(MatMul, PortableFloat32_IsTheFloat64Product) {
  KernelPolicy portable;
  portable.portable = true;
  for (const Case& c : Shapes()) Check<float>(c, portable, 1.2e-7, "portable");
}

TEST(MatMul, Float64_IsTheFloat64Product) {
  for (const Case& c : Shapes()) Check<double>(c, {}, 3e-16, "float64");
}

TEST(MatMul, BatchOfTen_UsesOwnKernels) {
  const auto run = RunOp("MatMul", {RandomTensor<float>({10, 784}, 1), RandomTensor<float>({784, 200}, 2)});
  ASSERT_OK(run);
  EXPECT_EQ(run->implementation, "hwy");
}

// Rows of the weights are taken by groups, by fours or pairs of a group, and columns by blocks, with what is left over.
TEST(DenseBackwardDescent, EverySizeOnEveryTarget_HasTheBitsOfItsTwoProducts) {
  constexpr float kRate = 0.25f;
  OnEveryTarget([&](const std::string& target) {
    for (const auto& [batch, in, out] : std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                                                            {10, 12, 64},
                                                                            {10, 37, 33},
                                                                            {7, 27, 16},
                                                                            {5, 48, 100},
                                                                            {13, 30, 47},
                                                                            {10, 33, 128},
                                                                            {10, 18, 1037},
                                                                            {1, 17, 515},
                                                                            {3, 1, 160},
                                                                            {9, 35, 145},
                                                                            {11, 19, 200}}) {
      SCOPED_TRACE(fmt::format("{} [{}x{}x{}]", target, batch, in, out));
      const Tensor x = RandomTensor<float>({batch, in}, 1), dy = RandomTensor<float>({batch, out}, 2);
      const Tensor from = RandomTensor<float>({in, out}, 3);
      Tensor dx(DType::kFloat32, {batch, in}), weights(DType::kFloat32, {in, out});
      Tensor expected_dx(DType::kFloat32, {batch, in}), expected_weights(DType::kFloat32, {in, out});
      const auto of = [](auto& tensor) { return tensor.template flat<float>().data(); };
      DotMatMul(of(dy), of(from), of(expected_dx), batch, in, out);
      PanelMatMulDescent(of(x), 1, in, of(dy), kRate, of(from), of(expected_weights), in, out, batch);
      DenseBackwardDescent(of(x), of(dy), kRate, of(from), of(weights), of(dx), batch, in, out);
      EXPECT_EQ(AsDoubles<float>(dx), AsDoubles<float>(expected_dx));
      EXPECT_EQ(AsDoubles<float>(weights), AsDoubles<float>(expected_weights));
    }
  });
}

TEST(MatMul, LargeProduct_UsesOneDnn) {
  const auto run = RunOp("MatMul", {RandomTensor<float>({100, 100}, 1), RandomTensor<float>({100, 100}, 2)});
  ASSERT_OK(run);
  EXPECT_THAT(run->implementation, HasSubstr("dnnl"));
}

TEST(MatMul, PortableLargeProduct_UsesNoLibrary) {
  KernelPolicy portable;
  portable.portable = true;
  const auto run =
      RunOp("MatMul", {RandomTensor<float>({100, 100}, 1), RandomTensor<float>({100, 100}, 2)}, {}, portable);
  ASSERT_OK(run);
  EXPECT_EQ(run->implementation, "portable");
}

TEST(MatMul, Integers_WrapAround) {
  const auto run = RunOp("MatMul", {Tensor::Of<int32_t>({1, 2}, {1 << 30, 1}), Tensor::Of<int32_t>({2, 1}, {4, 5})});
  ASSERT_OK(run);
  EXPECT_EQ(run->outputs[0].flat<int32_t>()[0], 5);
}

}  // namespace
}  // namespace rivulet::testing
