// FedAvgM: two rounds by hand, its limit, and the effect of its option.
#include <cmath>

#include "tests/federated/algorithms/pixel_rounds.h"

namespace rivulet {
namespace {

using ::rivulet::testing::ErrorOf;
using testing::PixelRounds;
using testing::PixelScenario;
using testing::RunPixels;

// Two weights that begin at 1, after rounds whose mean deltas are these.
StatusOr<ServerState> AfterDeltas(const SettingValues& options, const std::vector<std::vector<float>>& deltas) {
  const VariableSpec variables[] = {{"w", {DType::kFloat32, Shape{2}}}};
  RIVULET_ASSIGN_OR_RETURN(ModelLayout layout, ModelLayout::Create(variables));
  RIVULET_ASSIGN_OR_RETURN(const auto optimizer, ServerOptimizer::Create({"momentum", options}));
  const auto model = std::make_shared<Model>(std::make_shared<const ModelLayout>(std::move(layout)));
  for (float& value : model->tensor(model->layout().slices()[0]).flat<float>()) value = 1;
  RIVULET_ASSIGN_OR_RETURN(ServerState state, FirstState(model, *optimizer));
  for (const std::vector<float>& delta : deltas) {
    RIVULET_ASSIGN_OR_RETURN(state, NextState(state, *optimizer, 0.5, delta));
  }
  return state;
}

TEST(FedAvgM, TwoRounds_AreWhatTheEquationsSay) {
  ASSERT_OK_AND_ASSIGN(const ServerState state, AfterDeltas({{"beta", 0.75}}, {{1, -2}, {1, 0}}));
  EXPECT_THAT(state.flat("server/momentum"), ::testing::ElementsAre(1.75f, -1.5f));
  const auto weights = state.model->tensor(state.model->layout().slices()[0]).flat<float>();
  EXPECT_EQ(weights[0], 1 + 0.5f * (1 + 1.75f));
  EXPECT_EQ(weights[1], 1 - 0.5f * (2 + 1.5f));
}

TEST(FedAvgM, BetaOutOfItsRange_IsRefused) {
  EXPECT_THAT(ErrorOf(AfterDeltas({{"beta", 1.5}}, {})), ::testing::HasSubstr("beta must be at least 0 and at most 1"));
}

// Three rounds of three clients and a small model, whole: local training, the mean, the server.
PixelRounds Rounds(double beta) {
  Scenario scenario = PixelScenario("fedavgm");
  scenario.algorithm.settings["beta"] = beta;
  auto run = RunPixels(scenario, 3);
  EXPECT_OK(run);
  return *std::move(run);
}

TEST(FedAvgM, WithoutMomentum_IsFederatedAveragingToTheBit) {
  ASSERT_OK_AND_ASSIGN(const PixelRounds average, RunPixels(PixelScenario("fedavg"), 3));
  EXPECT_EQ(Rounds(0).versions, average.versions);
}

TEST(FedAvgM, Beta_GoesOnInTheDirectionOfTheRoundsBefore) {
  const PixelRounds without = Rounds(0), with = Rounds(0.9);
  EXPECT_EQ(with.versions[0], without.versions[0]) << "there was none before the first";
  const auto moved = [](const PixelRounds& run) {
    const std::vector<float> base = testing::WeightsOfModel(*testing::FourPixelsBase(*run.plan));
    const std::vector<float> now = testing::WeightsOfModel(*run.server.model);
    double squares = 0;
    for (size_t i = 0; i < base.size(); ++i) squares += std::pow(static_cast<double>(now[i]) - base[i], 2);
    return squares;
  };
  EXPECT_GT(moved(with), 1.5 * moved(without));
}

}  // namespace
}  // namespace rivulet
