// Median, Krum, Multi-Krum, the geometric median, centred clipping and a bound on norms: compared with NumPy in double,
// in limits that are a uniform mean, for every collector of updates, and under attack.
#include "tests/federated/algorithms/reference/robust_rules.inc"

#include <cmath>

#include "tests/federated/algorithms/robust_updates.h"

namespace rivulet {
namespace {

namespace robust_numpy = robust_rules_reference;
using testing::ComposedSpec;
using ::testing::ElementsAre;
using testing::Make;
using testing::MeanOf;
using testing::RandomUpdates;
using testing::TestUpdate;
using testing::UniformSpec;

AggregationSpec RobustSpec(const std::string& algorithm, const SettingValues& options, int64_t elements,
                           int64_t updates = 20) {
  Scenario scenario;
  scenario.algorithm.name = algorithm;
  scenario.algorithm.settings = options;
  return ComposedSpec(scenario, elements, updates);
}

struct RobustCase {
  const char* algorithm;
  SettingValues options;
  std::span<const double> wanted;
};

std::vector<RobustCase> RobustCases() {
  return {{"median", {}, robust_numpy::kMedian},
          {"krum", {{"byzantine", robust_numpy::kByzantine}}, robust_numpy::kKrum},
          {"multi_krum", {{"byzantine", robust_numpy::kByzantine}}, robust_numpy::kMultiKrum},
          {"geometric_median",
           {{"smoothing", robust_numpy::kSmoothing}, {"iterations", robust_numpy::kIterations}},
           robust_numpy::kGeometricMedian},
          {"centered_clipping",
           {{"tau", robust_numpy::kTau}, {"iterations", robust_numpy::kIterations}},
           robust_numpy::kCenteredClipping},
          {"norm_bound", {{"bound", robust_numpy::kTau}}, robust_numpy::kNormBound}};
}

TEST(RobustRules, Updates_ComeToWhatNumPyComputesInDouble) {
  std::vector<TestUpdate> updates;
  for (size_t u = 0; u < robust_numpy::kUpdates; ++u) {
    const double* const row = robust_numpy::kDeltas + u * robust_numpy::kSize;
    updates.push_back({fmt::format("{:02}", u), std::vector<float>(row, row + robust_numpy::kSize)});
  }
  for (const RobustCase& c : RobustCases()) {
    SCOPED_TRACE(c.algorithm);
    const std::vector<float> mean = MeanOf(RobustSpec(c.algorithm, c.options, robust_numpy::kSize), updates);
    double largest = 0;
    for (const double value : c.wanted) largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < robust_numpy::kSize; ++i) EXPECT_NEAR(mean[i], c.wanted[i], 1e-6 * largest) << i;
  }
}

TEST(RobustRules, InTheirLimits_AreTheUniformMeanToTheBit) {
  const std::map<std::string, SettingValues> limits = {{"multi_krum", {{"byzantine", 0.0}}},
                                                       {"geometric_median", {{"iterations", int64_t{0}}}},
                                                       {"centered_clipping", {{"tau", 1e6}}},
                                                       {"norm_bound", {{"bound", 1e6}}}};
  for (const int64_t elements : {1, 257, 5000}) {
    auto updates = RandomUpdates(13, static_cast<size_t>(elements), 0.1f);
    const std::vector<float> uniform = MeanOf(UniformSpec(elements), updates);
    for (const auto& [algorithm, options] : limits) {
      EXPECT_EQ(MeanOf(RobustSpec(algorithm, options, elements), updates), uniform) << algorithm << elements;
    }
  }
}

TEST(RobustRules, Median_IsTheTrimmedMeanOfTheLargestTrim) {
  for (const int count : {1, 2, 9, 10}) {
    auto updates = RandomUpdates(count, 100, 0.1f);
    EXPECT_EQ(MeanOf(RobustSpec("median", {}, 100), updates),
              MeanOf(RobustSpec("trimmed_mean", {{"trim", 0.4999}}, 100), updates))
        << count;
  }
}

TEST(RobustRules, AFewUpdates_AreNoneTooFew) {
  for (const RobustCase& c : RobustCases()) {
    std::vector<TestUpdate> one = {{"a", {0.25f, -0.5f}}};
    EXPECT_THAT(MeanOf(RobustSpec(c.algorithm, c.options, 2), one), ElementsAre(0.25f, -0.5f)) << c.algorithm;
    std::vector<TestUpdate> alike = {{"a", {0.25f, -0.5f}}, {"b", {0.25f, -0.5f}}, {"c", {0.25f, -0.5f}}};
    EXPECT_THAT(MeanOf(RobustSpec(c.algorithm, c.options, 2), alike), ElementsAre(0.25f, -0.5f)) << c.algorithm;
  }
}

// A rule reads its updates a block at a time, and who gathered them is not to be seen.
TEST(RobustRules, AnyOrderAndSplit_GivesTheSame) {
  auto updates = RandomUpdates(7, 5000, 0.5f);
  for (const RobustCase& c : RobustCases()) {
    const AggregationSpec spec = RobustSpec(c.algorithm, c.options, 5000);
    const std::vector<float> expected = MeanOf(spec, updates);
    auto left = Make(spec), right = Make(spec);
    for (size_t i = 7; i-- > 0;) ASSERT_OK((i % 3 ? left : right)->Take(updates[i].view(), updates[i].weights()));
    ASSERT_OK(left->Merge(right->Save().at(0)));
    EXPECT_EQ((std::move(*left).Finish())->parts[0].mean, expected) << c.algorithm;
  }
}

double DistanceFrom(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return std::sqrt(squares);
}

// Honest updates go one way and differ a little; a fifth goes ten times as far the other way.
TEST(RobustRules, FifthOfTheClientsTurnsItsSign_IsWithstood) {
  auto updates = RandomUpdates(10, 200, 0.02f);
  std::vector<float> way(200, 0.1f);
  for (TestUpdate& update : updates) {
    for (size_t i = 0; i < way.size(); ++i) update.delta[i] += way[i];
  }
  for (const size_t liar : {3, 8}) {
    for (float& value : updates[liar].delta) value *= -10;
  }
  const double honest = DistanceFrom(way, std::vector<float>(200));
  const std::map<std::string, SettingValues> rules = {
      {"median", {}},
      {"krum", {}},
      {"multi_krum", {}},
      {"geometric_median", {{"iterations", int64_t{30}}}},
      {"centered_clipping", {{"tau", 0.5}, {"iterations", int64_t{30}}}}};
  for (const auto& [algorithm, options] : rules) {
    EXPECT_LT(DistanceFrom(MeanOf(RobustSpec(algorithm, options, 200), updates), way), 0.3 * honest) << algorithm;
  }
  EXPECT_LT(DistanceFrom(MeanOf(RobustSpec("norm_bound", {{"bound", honest}}, 200), updates), way), 0.5 * honest);
  EXPECT_GT(DistanceFrom(MeanOf(UniformSpec(200), updates), way), 2 * honest) << "which a mean does not";
}

// What the options do, over five updates of one value.
float Of(const std::string& algorithm, const SettingValues& options, std::vector<float> values) {
  std::vector<TestUpdate> updates;
  for (size_t u = 0; u < values.size(); ++u) updates.push_back({fmt::format("{}", u), {values[u]}});
  return MeanOf(RobustSpec(algorithm, options, 1), updates).at(0);
}

TEST(RobustRules, Byzantine_IsHowManyAreNotCounted) {
  const std::vector<float> values = {0, 1, 2, 3, 100};
  EXPECT_EQ(Of("multi_krum", {{"byzantine", 0.0}}, values), 106 / 5.0f);
  EXPECT_EQ(Of("multi_krum", {{"byzantine", 0.2}}, values), 6 / 4.0f);
  // Two of the five may be wrong: only the nearest one counts, and 8 and 8.5 are nearest to each other.
  EXPECT_EQ(Of("krum", {{"byzantine", 0.0}}, {0, 1, 2, 8, 8.5f}), 2.0f);
  EXPECT_EQ(Of("krum", {{"byzantine", 0.4}}, {0, 1, 2, 8, 8.5f}), 8.0f);
}

TEST(RobustRules, Smoothing_MakesTheMedianAMean) {
  const std::vector<float> values = {0, 0, 0, 1, 9};
  EXPECT_LT(Of("geometric_median", {{"smoothing", 1e-6}, {"iterations", int64_t{50}}}, values), 1e-3);
  EXPECT_NEAR(Of("geometric_median", {{"smoothing", 100.0}, {"iterations", int64_t{50}}}, values), 2, 1e-6);
}

TEST(RobustRules, Iterations_GoFurtherFromTheMean) {
  const std::vector<float> values = {0, 0, 0, 1, 9};
  const auto median = [&](int64_t iterations) { return Of("geometric_median", {{"iterations", iterations}}, values); };
  EXPECT_EQ(median(0), 2);
  EXPECT_LT(median(1), median(0));
  EXPECT_LT(median(3), median(1));
  // One step from zero goes as far as tau, each further one on from there.
  EXPECT_FLOAT_EQ(Of("centered_clipping", {{"tau", 0.5}, {"iterations", int64_t{1}}}, {4, 4}), 0.5f);
  EXPECT_FLOAT_EQ(Of("centered_clipping", {{"tau", 0.5}, {"iterations", int64_t{3}}}, {4, 4}), 1.5f);
}

TEST(RobustRules, Tau_IsHowFarOneMovesTheCentre) {
  for (const double tau : {0.5, 2.0}) {
    EXPECT_FLOAT_EQ(Of("centered_clipping", {{"tau", tau}, {"iterations", int64_t{1}}}, {0, 0, 0, 0, 1000}),
                    static_cast<float>(tau / 5));
  }
}

TEST(RobustRules, Bound_IsTheLargestNormThatCounts) {
  EXPECT_FLOAT_EQ(Of("norm_bound", {{"bound", 0.5}}, {0.25f, 3}), 0.375f);
  EXPECT_FLOAT_EQ(Of("norm_bound", {{"bound", 2.0}}, {0.25f, 3}), 1.125f);
}

}  // namespace
}  // namespace rivulet
