// client.frozen: the variables that are not trained, and in which rounds.
#include "federated/plan/frozen_rounds.h"

#include "tests/federated/algorithms/pixel_rounds.h"

namespace rivulet {
namespace {

using ::rivulet::testing::ErrorOf;
using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::PixelRounds;
using testing::PixelScenario;
using testing::RunPixels;
using Stretch = FrozenRounds::Stretch;

StatusOr<ModelLayout> FourVariables() {
  return ModelLayout::Create(std::vector<VariableSpec>{{"conv/kernel", {DType::kFloat32, {3, 2}}},
                                                       {"conv/bias", {DType::kFloat32, {2}}},
                                                       {"dense/kernel", {DType::kFloat32, {20}}},
                                                       {"mean", {DType::kFloat32, {2}}, Segment::kShared}});
}

StatusOr<FrozenRounds> Read(const std::string& line) {
  RIVULET_ASSIGN_OR_RETURN(const ModelLayout layout, FourVariables());
  RIVULET_ASSIGN_OR_RETURN(const std::vector<FrozenRounds> frozen, ReadFrozen(std::vector<std::string>{line}, layout));
  return frozen.at(0);
}

TEST(FrozenRounds, Lines_AreStretchesOfWhatIsTrained) {
  ASSERT_OK_AND_ASSIGN(const FrozenRounds conv, Read("conv/*=2..5"));
  EXPECT_EQ(conv.from, 2);
  EXPECT_EQ(conv.until, 5);
  EXPECT_THAT(conv.stretches, ElementsAre(Stretch{0, 18})) << "two in one, with the padding between them";
  ASSERT_OK_AND_ASSIGN(const FrozenRounds kernels, Read("*kernel=3.."));
  EXPECT_GT(kernels.until, 1 << 30);
  EXPECT_THAT(kernels.stretches, ElementsAre(Stretch{0, 6}, Stretch{32, 20}));
}

TEST(FrozenRounds, WhatIsNoLine_IsRefused) {
  for (const char* const line :
       {"conv/*", "conv/*=1", "=1..2", "conv/*=0..2", "conv/*=3..2", "conv/*=a..b", "conv/*=1..2..3"}) {
    EXPECT_THAT(Read(line), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("PATTERN=FROM..UNTIL"))) << line;
  }
  EXPECT_THAT(Read("mean=1..2"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("no variable that is trained")));
  EXPECT_THAT(ErrorOf(Read("conv/bais=1..2")), HasSubstr("Did you mean 'conv/bias'?"));
}

// After each of three rounds of the algorithm.
std::vector<std::vector<float>> Weights(Scenario scenario, std::vector<std::string> frozen) {
  scenario.client.frozen = std::move(frozen);
  std::vector<std::vector<float>> weights;
  for (int rounds = 0; rounds <= 3; ++rounds) {
    auto run = RunPixels(scenario, rounds);
    EXPECT_OK(run);
    weights.push_back(testing::WeightsOfModel(*run->server.model));
  }
  return weights;
}

// Twelve weights and three biases.
bool SameBiases(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin() + 12, a.end(), b.begin() + 12);
}

TEST(FrozenRounds, FrozenVariables_StayInTheirRoundsAlone) {
  for (const char* const optimizer : {"sgd", "momentum", "adam"}) {
    Scenario scenario = PixelScenario("fedavg");
    scenario.client.optimizer.kind = optimizer;
    const auto weights = Weights(scenario, {"b=2..2"});
    EXPECT_FALSE(SameBiases(weights[0], weights[1])) << optimizer;
    EXPECT_TRUE(SameBiases(weights[1], weights[2])) << optimizer;
    EXPECT_NE(weights[1][0], weights[2][0]) << optimizer << ": the others go on";
    EXPECT_FALSE(SameBiases(weights[2], weights[3])) << optimizer;
  }
}

// What an algorithm adds to the gradient is frozen with it.
TEST(FrozenRounds, WithATermOfTheAlgorithm_StayToo) {
  const auto weights = Weights(PixelScenario("scaffold"), {"b=2..3"});
  EXPECT_TRUE(SameBiases(weights[1], weights[3]));
}

TEST(FrozenRounds, OutsideTheirRounds_NoBitIsMoved) {
  EXPECT_EQ(Weights(PixelScenario("fedavg"), {"w=9..12", "b=7.."}), Weights(PixelScenario("fedavg"), {}));
}

TEST(FrozenRounds, WithWeightDecay_AreRefused) {
  Scenario scenario = PixelScenario("fedavg");
  scenario.client.frozen = {"b=1..2"};
  scenario.client.optimizer.settings["weight_decay"] = 0.1;
  EXPECT_THAT(ErrorOf(RunPixels(scenario, 1)), HasSubstr("client.optimizer.weight_decay is 0.1"));
}

// A client draws how much it does; the same task the same again.
TEST(PartialWork, TasksGoOverTheirDataOnceToAllTimes) {
  Scenario scenario = PixelScenario("fedavg");
  scenario.client.epochs = 4;
  const auto whole = RunPixels(scenario, 3);
  scenario.client.partial_work = 1;
  const auto partial = RunPixels(scenario, 3), again = RunPixels(scenario, 3);
  ASSERT_OK(whole);
  ASSERT_OK(partial);
  EXPECT_NE(partial->versions, whole->versions);
  EXPECT_EQ(partial->versions, again->versions);
  scenario.client.partial_work = 0;
  EXPECT_EQ(RunPixels(scenario, 3)->versions, whole->versions);
}

}  // namespace
}  // namespace rivulet
