// The codec of values drawn by chance: that it loses nothing in the mean, by how much it is wrong, and that the draw is
// the task's own.
#include <cmath>
#include <limits>

#include "federated/codecs/codec.h"
#include "tests/federated/aggregation_updates.h"

namespace rivulet {
namespace {

using testing::RandomUpdates;

std::vector<float> RandomKValues(const std::vector<float>& values, double fraction, uint32_t draw) {
  const auto codec = *Codec::Create("random_k", std::ssize(values), {{"fraction", fraction}});
  const FloatRun run{values.data(), nullptr, std::ssize(values)};
  std::string bytes;
  Draws draws(StreamFor(2, "", Purpose::kSynthesize), draw);
  codec->Encode({&run, 1}, draws, bytes);
  EXPECT_EQ(std::ssize(bytes), codec->MaxBytes());
  EXPECT_OK(codec->Check(std::as_bytes(std::span(bytes))));
  std::vector<float> decoded(values.size());
  codec->Decode(std::as_bytes(std::span(bytes)), 0, decoded);
  return decoded;
}

TEST(RandomK, ManyDraws_HaveTheValueForTheirMeanAndItsVariance) {
  constexpr int kDraws = 20'000;
  std::vector<float> values = RandomUpdates(1, 40, 0.1f)[0].delta;
  values[7] = 0;
  std::vector<double> sums(values.size()), squares(values.size());
  for (uint32_t draw = 0; draw < kDraws; ++draw) {
    const std::vector<float> got = RandomKValues(values, 0.25, draw);
    EXPECT_LE(std::ranges::count_if(got, [](float value) { return value != 0; }), 10);
    for (size_t i = 0; i < values.size(); ++i) {
      const double error = static_cast<double>(got[i]) - values[i];
      sums[i] += error;
      squares[i] += error * error;
    }
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const double square = static_cast<double>(values[i]) * values[i], variance = square * (4 - 1);
    EXPECT_NEAR(sums[i] / kDraws, 0, 5 * std::sqrt(variance / kDraws)) << i;
    EXPECT_NEAR(squares[i] / kDraws, variance, 0.06 * variance) << i;
  }
}

TEST(RandomK, Draws_DecideWhichAndEverythingIsItself) {
  const std::vector<float> values = RandomUpdates(1, 500, 0.1f)[0].delta;
  EXPECT_EQ(RandomKValues(values, 0.1, 3), RandomKValues(values, 0.1, 3));
  EXPECT_NE(RandomKValues(values, 0.1, 3), RandomKValues(values, 0.1, 4));
  EXPECT_EQ(RandomKValues(values, 1, 3), values);
}

TEST(RandomK, ValueThatIsNoNumber_IsNotLeftOutByChance) {
  std::vector<float> values(1000, 0.5f);
  values[999] = std::numeric_limits<float>::infinity();
  for (uint32_t draw = 0; draw < 5; ++draw) {
    const std::vector<float> got = RandomKValues(values, 0.01, draw);
    EXPECT_TRUE(std::ranges::any_of(got, [](float value) { return std::isnan(value); }));
  }
}

}  // namespace
}  // namespace rivulet
