// Helpers for tests of products of split factors: shapes, and sums in float64.
#pragma once

#include <cmath>
#include <limits>

#include "engine/kernels/cpu/product/split_product.h"
#include "engine/kernels/cpu/vector/has_tiles.h"
#include "tests/engine/kernels/run_op.h"

namespace rivulet::testing {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

class SplitProductTest : public ::testing::Test {
 protected:
  void SetUp() override {
    EnterWorkerThread();
    if (!HasTiles()) GTEST_SKIP() << "this processor has no matrix unit for bfloat16";
  }
};

inline SplitProduct ShapeOf(int64_t m, int64_t n, int64_t k, bool turned_a, bool turned_b) {
  SplitProduct p;
  p.m = m, p.n = n, p.k = k;
  p.a_row = turned_a ? 1 : k, p.a_k = turned_a ? m : 1;
  p.b_k = turned_b ? 1 : n, p.b_column = turned_b ? k : 1;
  return p;
}

struct Sum {
  double value = 0, magnitudes = 0;
};
inline Sum SumOf(const SplitProduct& p, const float* a, const float* b, int64_t row, int64_t column) {
  Sum sum;
  for (int64_t k = 0; k < p.k; ++k) {
    const double product = static_cast<double>(a[row * p.a_row + k * p.a_k]) * b[k * p.b_k + column * p.b_column];
    sum.value += product;
    sum.magnitudes += std::abs(product);
  }
  return sum;
}

// A sum of k products is rounded at most k times, and each product omits at most 2^-22 of itself.
inline void ExpectSums(const SplitProduct& p, const float* a, const float* b, const std::vector<float>& c) {
  SCOPED_TRACE(fmt::format("[{}x{}x{}] {}{}", p.m, p.n, p.k, p.a_k == 1 ? "N" : "T", p.b_column == 1 ? "N" : "T"));
  for (int64_t row = 0; row < p.m; ++row) {
    for (int64_t column = 0; column < p.n; ++column) {
      const Sum sum = SumOf(p, a, b, row, column);
      const double bound = (static_cast<double>(p.k) * 0x1p-24 + 0x1p-22) * sum.magnitudes;
      ASSERT_NEAR(c[static_cast<size_t>(row * p.n + column)], sum.value, bound) << row << ", " << column;
    }
  }
}

}  // namespace rivulet::testing
