// FedBuff against NumPy in double: its limit, a uniform mean; the effect of each key of its policy; settings that are
// refused.
#include "tests/federated/algorithms/reference/fedbuff.inc"

#include <cmath>

#include "federated/aggregation/staleness.h"
#include "federated/algorithms/algorithm.h"
#include "federated/server_optimizers/server_optimizer.h"
#include "tests/federated/aggregation_updates.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;
using testing::RandomUpdates;
using testing::TestUpdate;

std::shared_ptr<const ModelLayout> BufferedLayout(size_t elements) {
  const VariableSpec variables[] = {{"w", {DType::kFloat32, Shape{static_cast<int64_t>(elements)}}}};
  return std::make_shared<const ModelLayout>(*ModelLayout::Create(variables));
}

Scenario Buffered(int64_t updates) {
  Scenario scenario;
  scenario.algorithm.name = "fedbuff";
  scenario.server.clients_per_round = updates;
  return scenario;
}

// What a version's updates come to, each of so many versions ago.
std::vector<float> BufferedMean(const Composition& composition, std::vector<TestUpdate> updates,
                                std::span<const int64_t> late, int64_t version = 9) {
  auto aggregation = testing::Make(composition.aggregation);
  for (size_t u = 0; u < updates.size(); ++u) {
    updates[u].weight = 1;
    UpdateView view = updates[u].view();
    view.base_version = version - 1 - late[u];
    EXPECT_OK(aggregation->Take(view, updates[u].weights()));
  }
  auto input = std::move(*aggregation).Finish(StalenessOf(version, composition.policy.staleness_exponent));
  EXPECT_OK(input);
  return std::move(input->parts[0].mean);
}

TEST(FedBuff, VersionsOfLateUpdates_AreWhatNumPyComputesInDouble) {
  namespace numpy = fedbuff_reference;
  const auto layout = BufferedLayout(numpy::kSize);
  Scenario scenario = Buffered(numpy::kUpdates);
  scenario.server.staleness_exponent = numpy::kExponent;
  ASSERT_OK_AND_ASSIGN(const Composition composition, Compose(scenario, *layout));
  EXPECT_EQ(composition.policy.base, TaskPolicy::Base::kLatest);
  ASSERT_OK_AND_ASSIGN(const auto server, ServerOptimizer::Create(composition.server_optimizer));
  auto model = std::make_shared<Model>(layout);
  const std::span<float> weights = model->tensor(layout->slices()[0]).flat<float>();
  for (size_t i = 0; i < numpy::kSize; ++i) weights[i] = static_cast<float>(numpy::kBase[i]);
  ASSERT_OK_AND_ASSIGN(ServerState state, FirstState(model, *server));
  double largest = 0;
  for (const double value : numpy::kModels) largest = std::max(largest, std::abs(value));
  for (size_t version = 0; version < numpy::kVersions; ++version) {
    std::vector<TestUpdate> updates;
    for (size_t u = 0; u < numpy::kUpdates; ++u) {
      TestUpdate& update = updates.emplace_back();
      update.task = fmt::format("{}", u);
      const double* const deltas = numpy::kDeltas + (version * numpy::kUpdates + u) * numpy::kSize;
      for (size_t i = 0; i < numpy::kSize; ++i) update.delta.push_back(static_cast<float>(deltas[i]));
    }
    const std::vector<float> mean =
        BufferedMean(composition, updates, std::span(numpy::kLate).subspan(version * numpy::kUpdates, numpy::kUpdates),
                     static_cast<int64_t>(version) + 1);
    ASSERT_OK_AND_ASSIGN(state, NextState(state, *server, numpy::kRate, mean));
    const std::span<const float> now = state.model->tensor(layout->slices()[0]).flat<float>();
    for (size_t i = 0; i < numpy::kSize; ++i) {
      EXPECT_NEAR(now[i], numpy::kModels[version * numpy::kSize + i], 1e-6 * largest) << version << " " << i;
    }
  }
}

TEST(FedBuff, FromCommittedModels_IsTheUniformMeanToTheBit) {
  Scenario scenario = Buffered(13);
  scenario.server.base = "committed";
  ASSERT_OK_AND_ASSIGN(const Composition buffered, Compose(scenario, *BufferedLayout(5000)));
  EXPECT_EQ(buffered.aggregation.staleness_bits, 0);
  scenario.algorithm.name = "fedavg";
  scenario.server.weights = "uniform";
  ASSERT_OK_AND_ASSIGN(const Composition average, Compose(scenario, *BufferedLayout(5000)));
  const std::vector<TestUpdate> updates = RandomUpdates(13, 5000, 0.1f);
  const std::vector<int64_t> late(13);
  EXPECT_EQ(BufferedMean(buffered, updates, late), BufferedMean(average, updates, late));
}

// A mean of late updates alone is as long as one of updates in time; what FedBuff makes of them is shorter.
TEST(FedBuff, LateUpdates_AlsoMoveLess) {
  Scenario scenario = Buffered(2);
  ASSERT_OK_AND_ASSIGN(const Composition buffered, Compose(scenario, *BufferedLayout(1)));
  scenario.algorithm.name = "fedavg";
  scenario.server.base = "latest";
  scenario.server.weights = "uniform";
  ASSERT_OK_AND_ASSIGN(const Composition average, Compose(scenario, *BufferedLayout(1)));
  const std::vector<TestUpdate> updates = {{"a", {1}}, {"b", {1}}};
  EXPECT_EQ(BufferedMean(average, updates, std::vector<int64_t>{3, 3})[0], 1);
  EXPECT_EQ(BufferedMean(buffered, updates, std::vector<int64_t>{3, 3})[0], 0.5f);
  EXPECT_EQ(BufferedMean(buffered, updates, std::vector<int64_t>{0, 3})[0], 0.75f);
}

TEST(FedBuff, StalenessFactors_ArePowersToA256th) {
  for (const int64_t late : {0, 1, 2, 7, 100, 1'000'000}) {
    EXPECT_EQ(StalenessFactor(late, 0), 256);
    const auto factor = static_cast<double>(StalenessFactor(late, 0.5));
    EXPECT_NEAR(factor, std::max(256 / std::sqrt(1.0 + static_cast<double>(late)), 1.0), 0.5) << late;
  }
  EXPECT_EQ(StalenessFactor(3, 1), 64);
  EXPECT_EQ(StalenessFactor(99, 16), 1) << "never nothing";
  EXPECT_EQ(StalenessOf(9, 1)(8), 256);
  EXPECT_EQ(StalenessOf(9, 1)(5), 64);
}

TEST(FedBuff, Dial_IsWhatTheScenarioSays) {
  Scenario scenario = Buffered(4);
  ASSERT_OK_AND_ASSIGN(const Composition usual, Compose(scenario, *BufferedLayout(1)));
  EXPECT_EQ(usual.policy.in_flight, 4);
  EXPECT_EQ(usual.policy.max_staleness, 10);
  scenario.server.in_flight = 9;
  scenario.server.max_staleness = 3;
  ASSERT_OK_AND_ASSIGN(const Composition wide, Compose(scenario, *BufferedLayout(1)));
  EXPECT_EQ(wide.policy.in_flight, 9);
  EXPECT_EQ(wide.policy.max_staleness, 3);
  EXPECT_EQ(wide.aggregation.updates_per_version, 4);
}

TEST(FedBuff, WhatCannotBeAsynchronous_IsRefusedByName) {
  const auto composed = [](const char* algorithm, const char* base, int64_t in_flight) {
    Scenario scenario = Buffered(4);
    scenario.algorithm.name = algorithm;
    scenario.server.base = base;
    scenario.server.in_flight = in_flight;
    return Compose(scenario, *BufferedLayout(1)).status();
  };
  EXPECT_OK(composed("fedavg", "latest", 9));
  EXPECT_OK(composed("fedadam", "latest", 9));
  EXPECT_OK(composed("fedprox", "latest", 9));
  EXPECT_THAT(composed("trimmed_mean", "latest", 0),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("aggregation rule 'trimmed_mean' looks at all")));
  EXPECT_THAT(composed("moon", "latest", 0),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("from task to task")));
  const VariableSpec own[] = {{"w", {DType::kFloat32, Shape{1}}},
                              {"head", {DType::kFloat32, Shape{1}}, Segment::kLocal}};
  EXPECT_THAT(Compose(Buffered(4), *ModelLayout::Create(own)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("personal layers (model.personal)")));
  EXPECT_THAT(composed("fedavg", "", 9), StatusIs(absl::StatusCode::kInvalidArgument,
                                                  HasSubstr("server.in_flight is 9, and server.base \"committed\"")));
}

}  // namespace
}  // namespace rivulet
