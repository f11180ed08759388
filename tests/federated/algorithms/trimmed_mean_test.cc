// The trimmed mean compared with NumPy in double, its limit that is a uniform mean, and its use against outliers.
#include "tests/federated/algorithms/reference/trimmed_mean.inc"

#include <cmath>

#include "tests/federated/algorithms/robust_updates.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using testing::BytesOf;
using testing::ComposedSpec;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Make;
using testing::MeanOf;
using testing::RandomUpdates;
using testing::Read;
using testing::TestUpdate;
using testing::UniformSpec;

AggregationSpec TrimmedSpec(double trim, int64_t elements, int64_t updates = 20) {
  Scenario scenario;
  scenario.algorithm.name = "trimmed_mean";
  scenario.algorithm.settings["trim"] = trim;
  return ComposedSpec(scenario, elements, updates);
}

TEST(TrimmedMean, Updates_AreAveragedAsNumPyDoesInDouble) {
  namespace numpy = trimmed_mean_reference;
  std::vector<TestUpdate> updates;
  for (size_t u = 0; u < numpy::kUpdates; ++u) {
    TestUpdate& update = updates.emplace_back();
    update.task = fmt::format("{}", u);
    for (size_t i = 0; i < numpy::kSize; ++i)
      update.delta.push_back(static_cast<float>(numpy::kDeltas[u * numpy::kSize + i]));
  }
  const std::vector<float> mean = MeanOf(TrimmedSpec(numpy::kTrim, numpy::kSize), updates);
  double largest = 0;
  for (const double value : numpy::kMean) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < numpy::kSize; ++i) EXPECT_NEAR(mean[i], numpy::kMean[i], 1e-6 * largest) << i;
}

TEST(TrimmedMean, WithoutTrim_IsTheUniformMeanToTheBit) {
  for (const int64_t elements : {1, 257, 5000}) {
    auto updates = RandomUpdates(13, static_cast<size_t>(elements), 0.1f);
    EXPECT_EQ(MeanOf(TrimmedSpec(0, elements), updates), MeanOf(UniformSpec(elements), updates)) << elements;
    // A twentieth of thirteen is none.
    EXPECT_EQ(MeanOf(TrimmedSpec(0.05, elements), updates), MeanOf(UniformSpec(elements), updates)) << elements;
  }
}

TEST(TrimmedMean, Trim_LeavesOutSoManyAtEitherEnd) {
  std::vector<TestUpdate> updates;
  for (int u = 0; u < 10; ++u) updates.push_back({fmt::format("{}", u), {std::ldexp(1.0f, u)}});
  const auto mean = [&](double trim) { return MeanOf(TrimmedSpec(trim, 1), updates).at(0); };
  EXPECT_EQ(mean(0), 1023 / 10.0f);
  EXPECT_EQ(mean(0.1), (1023 - 1 - 512) / 8.0f);
  EXPECT_EQ(mean(0.3), (8 + 16 + 32 + 64) / 4.0f);
  EXPECT_EQ(mean(0.49), (16 + 32) / 2.0f);
}

TEST(TrimmedMean, OneUpdate_IsItself) {
  std::vector<TestUpdate> updates = {{"a", {0.25f, -3}}};
  EXPECT_THAT(MeanOf(TrimmedSpec(0.4, 2), updates), ElementsAre(0.25f, -3));
}

// However wrong a minority is, each coordinate lies among the honest ones.
TEST(TrimmedMean, MinorityThatLies_IsOutvoted) {
  auto updates = RandomUpdates(10, 300, 0.01f);
  for (size_t liar : {2, 5, 9}) std::fill(updates[liar].delta.begin(), updates[liar].delta.end(), 1000.0f);
  const std::vector<float> mean = MeanOf(TrimmedSpec(0.3, 300), updates);
  for (size_t i = 0; i < mean.size(); ++i) {
    float least = 1, most = -1;
    for (size_t u : {0, 1, 3, 4, 6, 7, 8}) {
      least = std::min(least, updates[u].delta[i]);
      most = std::max(most, updates[u].delta[i]);
    }
    EXPECT_LE(least, mean[i]) << i;
    EXPECT_GE(most, mean[i]) << i;
  }
  EXPECT_GT(MeanOf(UniformSpec(300), updates)[0], 200) << "which a mean is not";
}

TEST(TrimmedMean, AnySplitIntoPartials_GivesTheSame) {
  auto updates = RandomUpdates(7, 100, 0.5f);
  const AggregationSpec spec = TrimmedSpec(0.2, 100);
  const std::vector<float> expected = MeanOf(spec, updates);
  for (size_t cut = 1; cut < 7; ++cut) {
    auto left = Make(spec), right = Make(spec);
    for (size_t i = 7; i-- > 0;) {
      ASSERT_OK((i < cut ? left : right)->Take(updates[i].view(), updates[i].weights()));
    }
    ASSERT_OK_AND_ASSIGN(Partial travelled, Read(spec, BytesOf(spec, right->Save()[0])));
    ASSERT_OK(left->Merge(std::move(travelled)));
    EXPECT_EQ((std::move(*left).Finish())->parts[0].mean, expected) << cut;
  }
}

TEST(TrimmedMean, SettingsOfItsRule_AreChecked) {
  AggregationSpec spec = TrimmedSpec(0.2, 1);
  spec.rule_settings = {{"trim", 0.5}};
  EXPECT_THAT(Aggregation::Create(spec), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("and below 0.5")));
  spec.rule_settings = {{"trin", 0.2}};
  EXPECT_THAT(Aggregation::Create(spec),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("aggregation rule 'trimmed_mean'")));
  spec.rule = "mean";
  EXPECT_THAT(Aggregation::Create(spec),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'mean' has no setting 'trin'")));
  EXPECT_NE(TrimmedSpec(0.2, 1).digest(), TrimmedSpec(0.1, 1).digest());
}

}  // namespace
}  // namespace rivulet
