// An external function in place of the mean: its inputs, and the outputs that are refused.
#include "federated/aggregation/external.h"

#include <limits>

#include "tests/federated/algorithms/robust_updates.h"
#include "tests/testing/external_mean.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using testing::ComposedSpec;
using ::testing::HasSubstr;
using testing::Make;
using testing::MeanOf;
using testing::RandomUpdates;
using testing::StatusIs;
using testing::TestUpdate;
using testing::UniformSpec;
using testing::UsesExternalMean;

Scenario External() {
  Scenario scenario;
  scenario.algorithm.name = "external";
  return scenario;
}

StatusOr<ServerInput> Finished(std::vector<TestUpdate>& updates, int64_t elements) {
  auto aggregation = Make(ComposedSpec(External(), elements, 20));
  for (TestUpdate& update : updates) EXPECT_OK(aggregation->Take(update.view(), update.weights()));
  return std::move(*aggregation).Finish();
}

TEST(ExternalRule, AMean_IsFederatedAveraging) {
  const UsesExternalMean external;
  for (const int64_t elements : {1, 257, 70000}) {
    auto updates = RandomUpdates(7, static_cast<size_t>(elements), 0.1f);
    const std::vector<float> uniform = MeanOf(UniformSpec(elements), updates);
    const std::vector<float> ours = MeanOf(ComposedSpec(External(), elements, 20), updates);
    ASSERT_EQ(ours.size(), uniform.size());
    for (size_t i = 0; i < ours.size(); ++i) ASSERT_NEAR(ours[i], uniform[i], 1e-7) << i;
  }
  EXPECT_EQ(external->calls, 3);
  EXPECT_EQ(external->version, 1) << "made of updates that started from version 0";
}

TEST(ExternalRule, PartialsOfOthers_AreReadWhereTheyAreStored) {
  const UsesExternalMean external;
  auto updates = RandomUpdates(6, 100, 0.1f);
  const AggregationSpec spec = ComposedSpec(External(), 100, 20);
  auto all = Make(spec), one = Make(spec), two = Make(spec);
  for (size_t u = 0; u < updates.size(); ++u) {
    updates[u].weight = static_cast<int64_t>(u + 1);
    ASSERT_OK(all->Take(updates[u].view(), updates[u].weights()));
    ASSERT_OK((u < 2 ? one : two)->Take(updates[u].view(), updates[u].weights()));
  }
  ASSERT_OK(one->Merge(two->Extract(0)));
  ASSERT_OK_AND_ASSIGN(const ServerInput whole, std::move(*all).Finish());
  ASSERT_OK_AND_ASSIGN(const ServerInput merged, std::move(*one).Finish());
  EXPECT_EQ(merged.parts[0].mean, whole.parts[0].mean);
}

TEST(ExternalRule, NoFunctionInThisProcess_IsAFailureThatNamesTheOption) {
  auto updates = RandomUpdates(2, 5, 0.1f);
  EXPECT_THAT(Finished(updates, 5), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--aggregate")));
}

TEST(ExternalRule, ValuesThatAreNotFinite_AreRefusedWithTheirPlace) {
  const UsesExternalMean external;
  external->added = std::numeric_limits<float>::quiet_NaN();
  auto updates = RandomUpdates(2, 5, 0.1f);
  EXPECT_THAT(Finished(updates, 5),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("returned nan at element 0 of 'delta'")));
}

TEST(ExternalRule, Function_IsARecordAlone) {
  Scenario named = External();
  named.algorithm.settings["function"] = std::string("robust:trimmed");
  EXPECT_EQ(ComposedSpec(named, 5, 20).digest(), ComposedSpec(External(), 5, 20).digest());
  EXPECT_NE(ComposedSpec(named, 5, 20).digest(), ComposedSpec(Scenario(), 5, 20).digest());
}

TEST(ExternalRule, WhatWouldBePromisedInVain_IsRefusedByItsKey) {
  const VariableSpec variables[] = {{"w", {DType::kFloat32, Shape{5}}}};
  const ModelLayout layout = *ModelLayout::Create(variables);
  Scenario clipped = External(), packed = External(), late = External();
  clipped.privacy.clip = 1;
  packed.update.codec = "int8";
  late.server.base = "latest";
  EXPECT_THAT(Compose(clipped, layout), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("privacy.clip is 1")));
  EXPECT_THAT(Compose(packed, layout), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("update.codec")));
  EXPECT_THAT(Compose(late, layout), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("server.base")));
}

}  // namespace
}  // namespace rivulet
