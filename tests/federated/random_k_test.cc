// The codec of randomly chosen values: its zero mean error, the size of its error, and the draw, which belongs to the
// task.
#include <cmath>
#include <limits>

#include "federated/aggregation/shared_places.h"
#include "federated/codecs/codec.h"
#include "tests/federated/aggregation_updates.h"

namespace rivulet {
namespace {

using testing::RandomUpdates;
using testing::TestUpdate;

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

// All updates of a version have values at the same places, which whoever has the version's draws knows beforehand.
TEST(RandomK, Shared_HasValuesAtThePlacesOfItsDraws) {
  for (const auto& [elements, fraction] : {std::pair{1, 0.01}, {40, 0.25}, {1000, 0.01}, {1000, 1.0}}) {
    const auto shared = *Codec::Create("random_k_shared", elements, {{"fraction", fraction}});
    const auto own = *Codec::Create("random_k", elements, {{"fraction", fraction}});
    EXPECT_TRUE(shared->shares_places());
    EXPECT_FALSE(own->shares_places());
    EXPECT_EQ(shared->MaxBytes(), own->MaxBytes());
    for (const int64_t version : {0, 7}) {
      const Draws draws = DrawsOfPlaces(version, 0);
      const std::vector<uint32_t> places = shared->Places(draws);
      EXPECT_EQ(std::ssize(places), shared->places());
      for (const TestUpdate& update : RandomUpdates(2, elements, 0.1f)) {
        const FloatRun run{update.delta.data(), nullptr, elements};
        std::string bytes, as_own;
        Draws first = draws, second = draws;
        shared->Encode({&run, 1}, first, bytes);
        own->Encode({&run, 1}, second, as_own);
        EXPECT_EQ(bytes, as_own);
        const SparseRun sent = *shared->Sparse(std::as_bytes(std::span(bytes)));
        for (int64_t i = 0; i < sent.count; ++i) {
          const auto at = static_cast<size_t>(i);
          EXPECT_EQ(sent.index(i), places[at]);
          EXPECT_EQ(sent.value(i), static_cast<float>(update.delta[places[at]] * shared->most_gain()));
        }
      }
    }
    const bool all = shared->Places(DrawsOfPlaces(0, 0)) == shared->Places(DrawsOfPlaces(1, 0));
    EXPECT_EQ(all, fraction == 1.0 || elements == 1);
  }
}

// By the algorithm that docs/internals/formats.md states, written anew in Python.
TEST(RandomK, Shared_HasTheDocumentedPlaces) {
  const auto places = [](int64_t elements, int64_t version, size_t part) {
    return (*Codec::Create("random_k_shared", elements, {{"fraction", 0.25}}))->Places(DrawsOfPlaces(version, part));
  };
  EXPECT_EQ(places(20, 3, 1), (std::vector<uint32_t>{0, 8, 12, 13, 17}));
  EXPECT_EQ(places(40, 0, 0), (std::vector<uint32_t>{1, 11, 12, 16, 19, 21, 29, 33, 37, 39}));
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
