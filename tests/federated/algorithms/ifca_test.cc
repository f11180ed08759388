// IFCA and HypCluster: three rounds are what NumPy computes in float64 (reference/local_training.py); the limits that
// are federated averaging; what the option does, and what is refused.
#include "engine/models/classifier.h"
#include "tests/federated/algorithms/pixel_rounds.h"

namespace rivulet {
namespace {

using ::rivulet::testing::ErrorOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::PixelRounds;
using testing::PixelScenario;
using testing::RunPixels;

Scenario ClusterScenario(const std::string& algorithm, int64_t clusters) {
  Scenario scenario = PixelScenario(algorithm);
  scenario.server.learning_rate = 0.75;
  scenario.algorithm.settings["clusters"] = clusters;
  return scenario;
}

TEST(Ifca, ThreeRounds_AreNumPysInDouble) {
  for (const char* algorithm : {"ifca", "hypcluster"}) {
    SCOPED_TRACE(algorithm);
    ASSERT_OK_AND_ASSIGN(const PixelRounds run, RunPixels(ClusterScenario(algorithm, 3), 3));
    std::vector<float> all = testing::WeightsOfModel(*run.server.model);
    for (const char* flat : {"server/cluster_1", "server/cluster_2"}) {
      const std::span<const float> weights = run.server.flat(flat);
      all.insert(all.end(), weights.begin(), weights.end());
    }
    testing::ExpectReference(fmt::format("{}.txt", algorithm), all);
    EXPECT_EQ(run.declared.at(0).at("cluster"), 2);
    EXPECT_EQ(run.declared.at(1).at("cluster"), 2);
    EXPECT_EQ(run.declared.at(2).at("cluster"), 0);
    ASSERT_OK_AND_ASSIGN(const auto first, testing::PixelsDrawn(*run.plan, "server/cluster_1"));
    EXPECT_THAT(testing::WeightsOfModel(*first), ::testing::ElementsAreArray(run.server.flat("server/cluster_1")))
        << "nobody chose it";
  }
}

TEST(Ifca, Clusters_AreHowManyModelsThereAre) {
  Scenario uniform = PixelScenario("fedavg");
  uniform.server.learning_rate = 0.75;
  ASSERT_OK_AND_ASSIGN(const PixelRounds by_examples, RunPixels(uniform, 3));
  uniform.server.weights = "uniform";
  ASSERT_OK_AND_ASSIGN(const PixelRounds average, RunPixels(uniform, 3));
  for (const char* algorithm : {"ifca", "hypcluster"}) {
    SCOPED_TRACE(algorithm);
    ASSERT_OK_AND_ASSIGN(const PixelRounds one, RunPixels(ClusterScenario(algorithm, 1), 3));
    EXPECT_EQ(one.versions, algorithm == std::string("ifca") ? average.versions : by_examples.versions);
    EXPECT_TRUE(one.plan->flat_names().broadcast.empty());
    EXPECT_EQ(one.plan->format(), kPlanFormat) << "no newer program is needed";
    ASSERT_OK_AND_ASSIGN(const PixelRounds three, RunPixels(ClusterScenario(algorithm, 3), 3));
    EXPECT_NE(three.versions, one.versions);
    EXPECT_THAT(three.plan->flat_names().broadcast, ElementsAre("cluster_1", "cluster_2"));
    EXPECT_EQ(three.plan->format(), kBroadPlanFormat);
  }
}

// A hundred times the weights: nobody is well served by it.
StatusOr<std::shared_ptr<const Model>> FarOff(const Plan& plan, std::string_view flat) {
  RIVULET_ASSIGN_OR_RETURN(const auto near, testing::PixelsDrawn(plan, flat));
  auto far = std::make_shared<Model>(plan.layout());
  for (const Slice& slice : plan.layout()->slices()) {
    const auto from = near->tensor(slice).flat<float>();
    const auto to = far->tensor(slice).flat<float>();
    for (size_t i = 0; i < to.size(); ++i) to[i] = 100 * from[i];
  }
  return far;
}

// Through all that choosing takes: the examples come in their order, so that a pass before the training moves no draw.
TEST(Ifca, WhereAllTakeTheFirst_IsFederatedAveragingToTheBit) {
  Scenario average = PixelScenario("fedavg");
  average.server.learning_rate = 0.75;
  ASSERT_OK_AND_ASSIGN(const PixelRounds alone, RunPixels(average, 3));
  ASSERT_OK_AND_ASSIGN(const PixelRounds first,
                       RunPixels(ClusterScenario("hypcluster", 3), 3, testing::FourPixels(), FarOff));
  EXPECT_EQ(first.versions, alone.versions);
  for (const auto& [client, declared] : first.declared) EXPECT_EQ(declared.at("cluster"), 0) << client;
  average.server.weights = "uniform";
  ASSERT_OK_AND_ASSIGN(const PixelRounds uniform, RunPixels(average, 3));
  ASSERT_OK_AND_ASSIGN(const PixelRounds of_ifca,
                       RunPixels(ClusterScenario("ifca", 2), 3, testing::FourPixels(), FarOff));
  EXPECT_EQ(of_ifca.versions, uniform.versions);
}

// Only what was chosen travels, whatever is done to it on the way.
TEST(Ifca, CodecAndClip_AreOfTheChosenPart) {
  Scenario scenario = ClusterScenario("ifca", 3);
  ASSERT_OK_AND_ASSIGN(const PixelRounds plain, RunPixels(scenario, 3));
  scenario.privacy.clip = 1e6;
  ASSERT_OK_AND_ASSIGN(const PixelRounds unclipped, RunPixels(scenario, 3));
  EXPECT_EQ(unclipped.versions, plain.versions);
  scenario.privacy.clip = 0;
  scenario.update.codec = "int8";
  ASSERT_OK_AND_ASSIGN(const PixelRounds coded, RunPixels(scenario, 3));
  EXPECT_NE(coded.versions, plain.versions);
  const std::span<const float> near = coded.server.flat("server/cluster_2"),
                               exact = plain.server.flat("server/cluster_2");
  ASSERT_EQ(near.size(), exact.size());
  for (size_t i = 0; i < near.size(); ++i) EXPECT_NEAR(near[i], exact[i], 0.05) << i;
}

TEST(Ifca, WhatHasNoSeveralModels_IsRefusedByItsKey) {
  const auto error = [](const Scenario& scenario, Segment segment) {
    const VariableSpec variables[] = {{"w", {DType::kFloat32, Shape{7}}},
                                      {"other", {DType::kFloat32, Shape{2}}, segment}};
    auto layout = ModelLayout::Create(variables);
    EXPECT_OK(layout);
    return ErrorOf(Compose(scenario, *layout));
  };
  Scenario scenario = ClusterScenario("ifca", 2);
  EXPECT_EQ(error(scenario, Segment::kTrainable), "no error");
  EXPECT_THAT(error(scenario, Segment::kShared), HasSubstr("batch_norm"));
  EXPECT_THAT(error(scenario, Segment::kLocal), HasSubstr("model.personal"));
  scenario.server.fine_tune.data = "/data/own.tfrecord";
  EXPECT_THAT(error(scenario, Segment::kTrainable), HasSubstr("server.fine_tune"));
  scenario.algorithm.settings["clusters"] = int64_t{1};
  EXPECT_EQ(error(scenario, Segment::kShared), "no error") << "one is federated averaging";
}

// As the four pixels' own first values are: zeros.
TEST(Ifca, ModelsThatWouldBeginAsOne_AreRefused) {
  ASSERT_OK_AND_ASSIGN(const auto plan, ComposePlan(ClusterScenario("ifca", 2), testing::FourPixels()));
  ASSERT_OK_AND_ASSIGN(const Composition composition, Compose(ClusterScenario("ifca", 2), *plan->layout()));
  ASSERT_OK_AND_ASSIGN(const auto optimizer, ServerOptimizer::Create(composition.server_optimizer));
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const Model> model, InitialModel(*plan, 3));
  const auto draw = [&](std::string_view flat) { return DrawModelFor(*plan, 3, flat); };
  EXPECT_THAT(ErrorOf(FirstState(model, *optimizer, draw)),
              HasSubstr("'server/cluster_1' would begin as the first model and always equal it"));
}

}  // namespace
}  // namespace rivulet
