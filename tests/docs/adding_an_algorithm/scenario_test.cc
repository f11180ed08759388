// The guide's scenario runs, and its option does something.
#include <fstream>
#include <sstream>

#include "simulations/simulator.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

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

TEST(AddingAnAlgorithm, ItsScenario_RunsAndItsOptionChangesWhatIsLearned) {
  const std::string digest = Simulated({});
  EXPECT_NE(Simulated({{"algorithm.beta", "0.9"}}), digest);
  EXPECT_EQ(Simulated({{"algorithm.beta", "0"}}), Simulated({{"algorithm.name", "fedavg"}}));
}

}  // namespace
}  // namespace rivulet
