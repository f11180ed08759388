// A dense layer's products by the matrix unit, against float64 sums of the rounded factors.
#include "engine/kernels/cpu/product/tile_dense.h"

#include <cmath>
#include <limits>

#include "engine/kernels/cpu/vector/has_tiles.h"
#include "tests/engine/kernels/run_op.h"

namespace rivulet::testing {
namespace {

const std::vector<TileDense> kShapes = {{1, 1, 1},     {10, 784, 10},  {10, 71, 200},  {3, 5, 7},     {16, 64, 32},
                                        {17, 33, 65},  {32, 100, 48},  {10, 3136, 33}, {9, 96, 1040}, {31, 47, 130},
                                        {10, 63, 512}, {10, 128, 513}, {5, 16, 2048},  {10, 31, 16},  {2, 257, 31}};

std::string Named(const TileDense& s) { return fmt::format("[{}x{}x{}]", s.batch, s.in, s.out); }

struct Factor {
  explicit Factor(const Tensor& tensor) : wide(tensor) {
    for (const float x : wide.flat<float>()) {
      narrow.push_back(bfloat16(x));
      exact.push_back(static_cast<double>(static_cast<float>(narrow.back())));
    }
  }
  const float* floats() const { return wide.flat<float>().data(); }
  Tensor wide;
  std::vector<bfloat16> narrow;
  std::vector<double> exact;
};

size_t At(int64_t row, int64_t columns, int64_t column) { return static_cast<size_t>(row * columns + column); }

// A sum of `terms` products of at most one, rounded to bfloat16 or not.
void ExpectSum(double actual, double expected, int64_t terms, bool rounded) {
  const double tolerance = static_cast<double>(terms + 1) * 0x1p-24 + (rounded ? std::abs(expected) * 0x1p-8 : 0);
  EXPECT_NEAR(actual, expected, tolerance);
}

class TileDenseTest : public ::testing::Test {
 protected:
  void SetUp() override {
    EnterWorkerThread();
    if (!HasTiles()) GTEST_SKIP() << "this processor has no matrix unit for bfloat16";
  }
};

TEST_F(TileDenseTest, Forward_IsTheSumWithBiasAndActivation) {
  for (const TileDense& s : kShapes) {
    const Factor x(RandomTensor<float>({s.batch, s.in}, 1)), w(RandomTensor<float>({s.in, s.out}, 2));
    const Factor bias(RandomTensor<float>({s.out}, 3));
    for (const bool biased : {false, true}) {
      for (const FusedActivation activation :
           {FusedActivation::kNone, FusedActivation::kRelu, FusedActivation::kRelu6}) {
        SCOPED_TRACE(Named(s));
        std::vector<bfloat16> y(static_cast<size_t>(s.batch * s.out)), of_narrow(y.size());
        TileDenseForward(s, x.narrow.data(), {w.floats(), true}, {biased ? bias.floats() : nullptr, true}, activation,
                         y.data());
        TileDenseForward(s, x.narrow.data(), {w.narrow.data(), false}, {biased ? bias.narrow.data() : nullptr, false},
                         activation, of_narrow.data());
        for (int64_t row = 0; row < s.batch; ++row) {
          for (int64_t column = 0; column < s.out; ++column) {
            double sum = biased ? bias.exact[static_cast<size_t>(column)] : 0;
            for (int64_t k = 0; k < s.in; ++k) sum += x.exact[At(row, s.in, k)] * w.exact[At(k, s.out, column)];
            if (activation != FusedActivation::kNone) sum = std::max(sum, 0.0);
            if (activation == FusedActivation::kRelu6) sum = std::min(sum, 6.0);
            const size_t at = At(row, s.out, column);
            ExpectSum(static_cast<float>(y[at]), sum, s.in, true);
            ASSERT_EQ(y[at].bits, of_narrow[at].bits);  // weights are rounded alike here and by a Cast
          }
        }
      }
    }
  }
}

TEST_F(TileDenseTest, InputGradient_IsTheSum) {
  for (const TileDense& s : kShapes) {
    SCOPED_TRACE(Named(s));
    const Factor dy(RandomTensor<float>({s.batch, s.out}, 1)), w(RandomTensor<float>({s.in, s.out}, 2));
    std::vector<bfloat16> dx(static_cast<size_t>(s.batch * s.in)), of_narrow(dx.size());
    TileDenseInputGradient(s, dy.narrow.data(), {w.floats(), true}, dx.data());
    TileDenseInputGradient(s, dy.narrow.data(), {w.narrow.data(), false}, of_narrow.data());
    for (int64_t row = 0; row < s.batch; ++row) {
      for (int64_t k = 0; k < s.in; ++k) {
        double sum = 0;
        for (int64_t column = 0; column < s.out; ++column)
          sum += dy.exact[At(row, s.out, column)] * w.exact[At(k, s.out, column)];
        ExpectSum(static_cast<float>(dx[At(row, s.in, k)]), sum, s.out, true);
        ASSERT_EQ(dx[At(row, s.in, k)].bits, of_narrow[At(row, s.in, k)].bits);
      }
    }
  }
}

TEST_F(TileDenseTest, WeightGradient_IsTheSumAndHasTheSameBitsByParts) {
  for (const TileDense& s : kShapes) {
    SCOPED_TRACE(Named(s));
    const Factor x(RandomTensor<float>({s.batch, s.in}, 1)), dy(RandomTensor<float>({s.batch, s.out}, 2));
    std::vector<float> dw(static_cast<size_t>(s.in * s.out)), parts(dw.size());
    TileDenseWeightGradient(s, x.narrow.data(), dy.narrow.data(), 0, s.in, dw.data());
    for (int64_t row = 0; row < s.in; row += 19)
      TileDenseWeightGradient(s, x.narrow.data(), dy.narrow.data(), row, std::min<int64_t>(19, s.in - row),
                              parts.data() + row * s.out);
    EXPECT_EQ(dw, parts);
    for (int64_t k = 0; k < s.in; ++k) {
      for (int64_t column = 0; column < s.out; ++column) {
        double sum = 0;
        for (int64_t row = 0; row < s.batch; ++row) sum += x.exact[At(row, s.in, k)] * dy.exact[At(row, s.out, column)];
        ExpectSum(dw[At(k, s.out, column)], sum, s.batch, false);
      }
    }
  }
}

TEST_F(TileDenseTest, Backward_HasTheBitsOfItsParts) {
  constexpr float kRate = 0.3f;
  for (const TileDense& s : kShapes) {
    SCOPED_TRACE(Named(s));
    const Factor x(RandomTensor<float>({s.batch, s.in}, 1)), dy(RandomTensor<float>({s.batch, s.out}, 2));
    const Factor w(RandomTensor<float>({s.in, s.out}, 3));
    std::vector<bfloat16> dx(static_cast<size_t>(s.batch * s.in)), expected_dx(dx.size());
    std::vector<float> dw(static_cast<size_t>(s.in * s.out)), after(dw.size()), descended(dw.size());
    TileDenseInputGradient(s, dy.narrow.data(), {w.floats(), true}, expected_dx.data());
    TileDenseWeightGradient(s, x.narrow.data(), dy.narrow.data(), 0, s.in, dw.data());
    TileDenseDescent(s, x.narrow.data(), dy.narrow.data(), kRate, w.floats(), 0, s.in, descended.data());
    for (size_t i = 0; i < dw.size(); ++i) {
      const volatile float step = kRate * dw[i];  // rounded before it is taken off
      ASSERT_EQ(descended[i], w.floats()[i] - step);
    }
    TileDenseBackward(s, x.narrow.data(), dy.narrow.data(), kRate, w.floats(), after.data(), dx.data());
    EXPECT_EQ(after, descended);
    std::vector<float> in_place(w.floats(), w.floats() + dw.size());
    TileDenseBackward(s, x.narrow.data(), dy.narrow.data(), kRate, in_place.data(), in_place.data(), dx.data());
    EXPECT_EQ(in_place, descended);
    for (size_t i = 0; i < dx.size(); ++i) ASSERT_EQ(dx[i].bits, expected_dx[i].bits);
  }
}

TEST_F(TileDenseTest, NotANumber_StaysOne) {
  const TileDense s{2, 40, 20};
  Factor x(RandomTensor<float>({s.batch, s.in}, 1)), w(RandomTensor<float>({s.in, s.out}, 2));
  x.narrow[3] = bfloat16(std::numeric_limits<float>::quiet_NaN());
  std::vector<bfloat16> y(static_cast<size_t>(s.batch * s.out));
  TileDenseForward(s, x.narrow.data(), {w.floats(), true}, {}, FusedActivation::kRelu6, y.data());
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(static_cast<float>(y[i])), i < 20) << i;
}

}  // namespace
}  // namespace rivulet::testing
