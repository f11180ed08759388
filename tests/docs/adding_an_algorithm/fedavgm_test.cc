// FedAvgM: two rounds by hand, its limit, and a simulation of it.
#include <fstream>
#include <sstream>

#include "federated/algorithms/algorithm.h"
#include "federated/server_optimizers/server_optimizer.h"
#include "simulations/simulator.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::rivulet::testing::ErrorOf;

// Two weights that begin at 1, after rounds whose mean deltas are these.
StatusOr<ServerState> After(const SettingValues& options, const std::vector<std::vector<float>>& deltas) {
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
  ASSERT_OK_AND_ASSIGN(const ServerState state, After({{"beta", 0.75}}, {{1, -2}, {1, 0}}));
  EXPECT_THAT(state.flat("server/momentum"), ::testing::ElementsAre(1.75f, -1.5f));
  const auto weights = state.model->tensor(state.model->layout().slices()[0]).flat<float>();
  EXPECT_EQ(weights[0], 1 + 0.5f * (1 + 1.75f));
  EXPECT_EQ(weights[1], 1 - 0.5f * (2 + 1.5f));
}

TEST(FedAvgM, BetaOutOfItsRange_IsRefused) {
  EXPECT_THAT(ErrorOf(After({{"beta", 1.5}}, {})), ::testing::HasSubstr("beta must be at least 0 and at most 1"));
}

// The digest of the last model of fedavgm.toml.
std::string Simulated(const std::vector<std::pair<std::string, std::string>>& overrides) {
  std::stringstream text;
  text << std::ifstream(RIVULET_SOURCE_FOLDER "/tests/docs/adding_an_algorithm/fedavgm.toml").rdbuf();
  const testing::TempFolder folder;
  SimulationOptions options;
  auto scenario = Scenario::Parse(text.str(), "fedavgm.toml", folder.path(), overrides);
  EXPECT_OK(scenario);
  options.scenario = *std::move(scenario);
  options.db_path = folder.File("runs.sqlite");
  const auto simulation = Simulation::Create(std::move(options));
  EXPECT_OK(simulation);
  const auto result = (*simulation)->Run();
  EXPECT_OK(result);
  return result->model->ComputeDigest().Hex();
}

TEST(FedAvgM, WithoutMomentum_IsFederatedAveragingToTheBit) {
  EXPECT_EQ(Simulated({{"algorithm.beta", "0"}}), Simulated({{"algorithm.name", "fedavg"}}));
}

TEST(FedAvgM, Beta_ChangesWhatIsLearned) { EXPECT_NE(Simulated({{"algorithm.beta", "0.9"}}), Simulated({})); }

}  // namespace
}  // namespace rivulet
