// BatchMatMulV2 and Einsum against plain float64 loops: every choice of the table, every instruction set, odd shapes,
// operands that are not aligned.
#include <gmock/gmock.h>

#include "tests/engine/kernels/every_target.h"
#include "tests/engine/kernels/run_op.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

struct Case {
  int64_t batch, m, n, k;
  bool adj_x, adj_y, shared_y;  // one y for all
};

std::vector<double> Reference(const Case& c, const std::vector<double>& x, const std::vector<double>& y) {
  std::vector<double> product(static_cast<size_t>(c.batch * c.m * c.n), 0);
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t i = 0; i < c.m; ++i)
      for (int64_t j = 0; j < c.n; ++j)
        for (int64_t k = 0; k < c.k; ++k) {
          const int64_t of_x = b * c.m * c.k + (c.adj_x ? k * c.m + i : i * c.k + k);
          const int64_t of_y = (c.shared_y ? 0 : b * c.n * c.k) + (c.adj_y ? j * c.k + k : k * c.n + j);
          product[static_cast<size_t>((b * c.m + i) * c.n + j)] +=
              x[static_cast<size_t>(of_x)] * y[static_cast<size_t>(of_y)];
        }
  return product;
}

Shape Matrices(int64_t batch, int64_t rows, int64_t columns, bool transposed) {
  return transposed ? Shape{batch, columns, rows} : Shape{batch, rows, columns};
}

template <typename T>
void Check(const Case& c, KernelPolicy policy, double epsilon, const std::string& target, size_t misalign = 0) {
  const Tensor x = RandomTensor<T>(Matrices(c.batch, c.m, c.k, c.adj_x), 1);
  Shape of_y = Matrices(c.shared_y ? 1 : c.batch, c.k, c.n, c.adj_y);
  const Tensor y = RandomTensor<T>(of_y, 2);
  const auto run = RunOp("BatchMatMulV2", {x, y}, {{"adj_x", c.adj_x}, {"adj_y", c.adj_y}}, policy, {}, misalign);
  ASSERT_OK(run);
  ExpectNear<T>(run->outputs[0], Reference(c, AsDoubles<T>(x), AsDoubles<T>(y)), epsilon * static_cast<double>(c.k + 1),
                fmt::format("{} {} {}[{}x{}x{}] {}{}{}", target, run->implementation, c.batch, c.m, c.n, c.k,
                            c.adj_x ? "T" : "N", c.adj_y ? "T" : "N", c.shared_y ? " shared" : ""));
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const bool adj_x : {false, true})
    for (const bool adj_y : {false, true})
      for (const bool shared_y : {false, true})
        for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                                                         {1, 1, 50},
                                                                         {1, 7, 40},
                                                                         {5, 1, 9},
                                                                         {8, 8, 8},
                                                                         {13, 33, 65},
                                                                         {16, 17, 80},
                                                                         {49, 31, 20},
                                                                         {64, 64, 16}})
          cases.push_back({3, m, n, k, adj_x, adj_y, shared_y});
  return cases;
}

TEST(BatchMatMul, Float32OnEveryTarget_IsTheFloat64Product) {
  OnEveryTarget([](const std::string& target) {
    for (const Case& c : Cases()) Check<float>(c, {}, 1.2e-7, target);
  });
}

TEST(BatchMatMul, UnalignedOperands_AreMultipliedRightly) {
  OnEveryTarget([](const std::string& target) {
    for (const Case& c : Cases()) Check<float>(c, {}, 1.2e-7, target, 4);
  });
}

TEST(BatchMatMul, LargeMatrices_GoToTheLibrary) {
  for (const bool adj_x : {false, true})
    for (const bool adj_y : {false, true}) {
      Check<float>({2, 161, 170, 165, adj_x, adj_y, false}, {}, 1.2e-7, "library");
      Check<float>({2, 161, 170, 165, adj_x, adj_y, true}, {}, 1.2e-7, "library", 4);
    }
  const auto run =
      RunOp("BatchMatMulV2", {RandomTensor<float>({2, 170, 170}, 1), RandomTensor<float>({2, 170, 170}, 2)});
  ASSERT_OK(run);
  EXPECT_EQ(run->implementation, "dnnl");
}

TEST(BatchMatMul, Float64AndPortable_AreTheProduct) {
  for (const Case& c : Cases()) {
    Check<double>(c, {}, 2.3e-16, "float64");
    Check<float>(c, {.portable = true}, 1.2e-7, "portable");
  }
}

// Sums inside an equation take the same products; a large one the library's, with its own state.
TEST(Einsum, LargeProducts_AreTheFloat64Product) {
  const Case c{2, 170, 161, 165, false, false, false};
  const Tensor x = RandomTensor<float>({2, 170, 165}, 1), y = RandomTensor<float>({2, 165, 161}, 2);
  const auto expected = Reference(c, AsDoubles<float>(x), AsDoubles<float>(y));
  const auto run = RunOp("Einsum", {x, y}, {{"equation", std::string("bij,bjk->bik")}});
  ASSERT_OK(run);
  EXPECT_EQ(run->implementation, "einsum dnnl");
  ExpectNear<float>(run->outputs[0], expected, 2e-5, "einsum");
}

// The same bits on every instruction set, and under the portable policy.
TEST(Reductions, OfFloats_HaveTheSameBitsOnEveryTarget) {
  const Tensor x = RandomTensor<float>({37, 211}, 3);
  for (const std::string op : {"Sum", "Mean", "Max", "Min", "EuclideanNorm", "Prod"})
    for (int32_t axis : {0, 1}) {
      std::optional<Tensor> first;
      OnEveryTarget([&](const std::string& target) {
        for (bool portable : {false, true}) {
          const auto run = RunOp(op, {x, Tensor::Of<int32_t>({1}, {axis})}, {}, {.portable = portable}, {1});
          ASSERT_OK(run);
          if (!first) first = run->outputs[0];
          EXPECT_EQ(std::memcmp(first->data(), run->outputs[0].data(), first->bytes()), 0)
              << op << " over axis " << axis << " on " << target;
        }
      });
    }
}

}  // namespace
}  // namespace rivulet::testing
