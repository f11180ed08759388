// Sums and extremes of rows of floats have, on every instruction set and whatever the row's length, the bits of 16
// lanes that are joined as a tree.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "engine/kernels/cpu/reduction/reduce_f32.h"
#include "tests/engine/kernels/every_target.h"
#include "tests/engine/kernels/run_op.h"

namespace rivulet::testing {
namespace {

constexpr int64_t kRows = 5;

template <typename Carry, typename Join>
Carry InLanes(const float* row, int64_t count, Carry neutral, Join join) {
  Carry lanes[16];
  for (Carry& lane : lanes) lane = neutral;
  for (int64_t i = 0; i < count; ++i) lanes[i % 16] = join(lanes[i % 16], static_cast<Carry>(row[i]));
  for (int width = 8; width > 0; width /= 2)
    for (int lane = 0; lane < width; ++lane) lanes[lane] = join(lanes[lane], lanes[lane + width]);
  return lanes[0];
}

// Ordinary numbers, zeros of both signs, infinities and NaN.
Tensor Rows(int64_t count, bool special) {
  Tensor rows = RandomTensor<float>({kRows, count}, static_cast<uint32_t>(count));
  const std::span<float> values = rows.flat<float>();
  for (size_t i = 0; special && i < values.size(); ++i) {
    if (i % 7 == 3) values[i] = i % 2 == 0 ? 0.0f : -0.0f;
    if (i % 11 == 5) values[i] = i % 3 == 0 ? -std::numeric_limits<float>::infinity() : -0.0f;
    if (i % 97 == 29) values[i] = std::numeric_limits<float>::quiet_NaN();
  }
  return rows;
}

TEST(ReduceRows, EveryLengthOnEveryTarget_HasTheBitsOfSixteenLanes) {
  const float infinity = std::numeric_limits<float>::infinity();
  OnEveryTarget([&](const std::string& target) {
    for (int64_t count = 1; count <= 70; ++count) {
      for (const bool special : {false, true}) {
        // In memory of its own size, so that a sanitizer sees what is read beyond it.
        const Tensor rows = Rows(count, special);
        const float* in = rows.flat<float>().data();
        double sums[kRows];
        float largest[kRows], least[kRows];
        SumRowsF32(in, count, count, kRows, sums);
        MaxRowsF32(in, count, count, kRows, largest);
        MinRowsF32(in, count, count, kRows, least);
        for (int64_t r = 0; r < kRows; ++r) {
          const float* row = in + r * count;
          const auto max =
              InLanes<float>(row, count, -infinity, [](float a, float b) { return b > a || b != b ? b : a; });
          const auto min =
              InLanes<float>(row, count, infinity, [](float a, float b) { return b < a || b != b ? b : a; });
          const auto sum = InLanes<double>(row, count, 0.0, [](double a, double b) { return a + b; });
          const std::string where = fmt::format("{}, row {} of {}", target, r, count);
          EXPECT_EQ(std::bit_cast<uint32_t>(largest[r]), std::bit_cast<uint32_t>(max)) << where;
          EXPECT_EQ(std::bit_cast<uint32_t>(least[r]), std::bit_cast<uint32_t>(min)) << where;
          if (std::isnan(sum))
            EXPECT_TRUE(std::isnan(sums[r])) << where;
          else
            EXPECT_EQ(std::bit_cast<uint64_t>(sums[r]), std::bit_cast<uint64_t>(sum)) << where;
        }
      }
    }
  });
}

}  // namespace
}  // namespace rivulet::testing
