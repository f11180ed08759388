// Products with a factor that is split once, as in recurrent layers.
#include "engine/kernels/cpu/product/split_factor.h"

#include "tests/engine/kernels/product/split_problem.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

class SplitFactorTest : public SplitProductTest {};

struct Packed {
  Packed(const float* b, bool turned, int64_t n, int64_t k) : memory(SplitFactorBytes(n, k)) {
    std::memset(memory.data(), 0xFF, memory.size());
    made = PackSplitFactor(b, turned ? 1 : n, turned ? k : 1, n, k, memory.data());
  }
  AlignedBuffer memory;
  bool made = false;
};

std::vector<float> Times(const float* a, int64_t a_row, const Packed& packed, int64_t m, int64_t n, int64_t k) {
  std::vector<float> c(static_cast<size_t>(m * n) + 16, -7.0f);
  AlignedBuffer rows(SplitRowsBytes(k));
  std::memset(rows.data(), 0xFF, rows.size());
  SplitFactorProduct(a, a_row, packed.memory.data(), c.data(), m, n, k, rows.data());
  for (size_t i = c.size() - 16; i < c.size(); ++i) EXPECT_EQ(c[i], -7.0f) << "written behind the product";
  c.resize(c.size() - 16);
  return c;
}

TEST_F(SplitFactorTest, EveryShape_IsTheSum) {
  for (const bool turned : {false, true}) {
    for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{
             {1, 1, 1}, {10, 1024, 256}, {10, 64, 96}, {16, 33, 70}, {17, 48, 32}, {7, 130, 65}, {45, 100, 31}}) {
      SplitProduct p = ShapeOf(m, n, k, false, turned);
      p.a_row = k + 5;  // as the rows of a step lie in sequences
      const Tensor a = RandomTensor<float>({m * p.a_row}, 1), b = RandomTensor<float>({k * n}, 2);
      const Packed packed(b.flat<float>().data(), turned, n, k);
      ASSERT_TRUE(packed.made);
      ExpectSums(p, a.flat<float>().data(), b.flat<float>().data(),
                 Times(a.flat<float>().data(), p.a_row, packed, m, n, k));
    }
  }
}

// Clients that take their steps together must not have other bits than each by itself.
TEST_F(SplitFactorTest, RowByRow_HasTheBitsOfAllTogether) {
  const int64_t m = 40, n = 70, k = 100;
  const Tensor a = RandomTensor<float>({m, k}, 1), b = RandomTensor<float>({k, n}, 2);
  const Packed packed(b.flat<float>().data(), false, n, k);
  const std::vector<float> all = Times(a.flat<float>().data(), k, packed, m, n, k);
  for (int64_t row = 0; row < m; ++row) {
    const std::vector<float> one = Times(a.flat<float>().data() + row * k, k, packed, 1, n, k);
    for (size_t column = 0; column < one.size(); ++column)
      ASSERT_EQ(one[column], all[static_cast<size_t>(row * n) + column]) << row;
  }
}

TEST_F(SplitFactorTest, StrangeRows_AreMultipliedWithTheFactorJoinedAgain) {
  const int64_t m = 12, n = 40, k = 70;
  Tensor a = RandomTensor<float>({m, k}, 1);
  const Tensor b = RandomTensor<float>({k, n}, 2);
  const Packed packed(b.flat<float>().data(), false, n, k);
  a.flat<float>()[3 * 70 + 69] = kInfinity;
  const std::vector<float> c = Times(a.flat<float>().data(), k, packed, m, n, k);
  const SplitProduct p = ShapeOf(m, n, k, false, false);
  for (int64_t row = 0; row < m; ++row)
    for (int64_t column = 0; column < n; ++column) {
      const float actual = c[static_cast<size_t>(row * n + column)];
      const Sum sum = SumOf(p, a.flat<float>().data(), b.flat<float>().data(), row, column);
      if (row == 3) {
        EXPECT_EQ(actual, static_cast<float>(sum.value));
      } else {
        EXPECT_NEAR(actual, sum.value, static_cast<double>(k) * 0x1p-24 * sum.magnitudes);
      }
    }
}

TEST_F(SplitFactorTest, StrangeFactor_IsRefused) {
  Tensor b = RandomTensor<float>({70, 40}, 2);
  b.flat<float>()[69 * 40 + 39] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(Packed(b.flat<float>().data(), false, 40, 70).made);
  EXPECT_FALSE(Packed(b.flat<float>().data(), true, 40, 70).made);
}

// Recurrent layers then lay their weights out as floats, in the same memory.
TEST_F(SplitFactorTest, LstmWithAnInfiniteWeight_SpoilsWhatItReachesAlone) {
  const int64_t steps = 9, batch = 10, units = 128;  // enough for the unit
  const Tensor projection = RandomTensor<float>({batch, steps, 4 * units}, 1);
  Tensor kernel = RandomTensor<float>({units, 4 * units}, 2);
  const Tensor none(DType::kFloat32, {0}), no_lengths(DType::kInt32, {0});
  const AttrMap attrs;
  const auto plain = RunOp("LSTM", {projection, kernel, none, none, none, no_lengths}, attrs);
  ASSERT_OK(plain);
  kernel.flat<float>()[0] = kInfinity;  // of the first unit's state, to its own input gate
  const auto run = RunOp("LSTM", {projection, kernel, none, none, none, no_lengths}, attrs);
  ASSERT_OK(run);
  // After the first step, which has no state before it, the first unit's gate is 0 or 1, and all others are finite.
  for (const float x : run->outputs[0].flat<float>()) ASSERT_TRUE(std::isfinite(x));
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = 0; i < units; ++i) {
      const size_t at = static_cast<size_t>(b * steps * units + i);
      ASSERT_NEAR(run->outputs[0].flat<float>()[at], plain->outputs[0].flat<float>()[at], 1e-6);
    }
}

}  // namespace
}  // namespace rivulet::testing
