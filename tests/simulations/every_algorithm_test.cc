// Every algorithm of the registry, whole: simulated by any number of workers and deployed to the same bits; and the
// limits in which one is another.
#include <algorithm>
#include <numeric>
#include <random>
#include <thread>

#include "client/agent/agent.h"
#include "engine/data/tfrecord.h"
#include "federated/algorithms/algorithm.h"
#include "federated/settings/setting_tables.h"
#include "setup/run_setup.h"
#include "simulations/simulator.h"
#include "tests/testing/external_mean.h"
#include "tests/testing/memory_dataset.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

class EveryAlgorithmTest : public testing::FolderTest {
 protected:
  // Nine clients of unlike numbers of examples, four of whom make a version.
  Scenario ScenarioOf(const std::string& algorithm) {
    Scenario scenario;
    scenario.run.name = "every";
    scenario.run.rounds = 2;
    scenario.run.durability = "end";  // nothing is killed here, and a disk's time is nobody's business
    scenario.run.seed = 3;
    scenario.model.preset = "logistic_regression";
    if (!FileSystem::Default().Exists(Path("train.tfrecord"))) {
      auto writer = RecordWriter::Create(FileSystem::Default(), Path("train.tfrecord"));
      EXPECT_OK(writer);
      for (const std::string& record : testing::DigitRecords(120)) EXPECT_OK((*writer)->Append(record));
      EXPECT_OK((*writer)->Finish());
      EXPECT_OK((*writer)->Publish());
    }
    scenario.data.train = Path("train.tfrecord");
    scenario.data.partition.clients = 9;
    scenario.client.batch_size = 8;
    scenario.client.optimizer.learning_rate = 0.1;
    scenario.server.clients_per_round = 4;
    scenario.algorithm.name = algorithm;
    if (algorithm == "fedper" || algorithm == "fedrep") {
      scenario.model.preset = "mlp";
      scenario.model.personal = {"dense3/*"};
      scenario.evaluation.every = 0;  // no version has their values
    }
    if (algorithm == "fedbn") {
      scenario.model.preset.clear();
      scenario.model.input.shape = {28, 28, 1};
      scenario.model.classes = 10;
      scenario.model.layers = {{{"type", std::string("flatten")}},
                               {{"type", std::string("dense")}, {"units", int64_t{8}}},
                               {{"type", std::string("batch_norm")}},
                               {{"type", std::string("dense")}, {"units", int64_t{10}}}};
      scenario.model.personal = {"*norm*/*"};
      scenario.evaluation.every = 0;
    }
    if (algorithm == "dp_fedavg") {  // with noise that can be drawn again
      scenario.privacy.clip = 0.5;
      scenario.algorithm.settings["noise_source"] = std::string("seeded");
    }
    return scenario;
  }

  // The digests of all versions; empty, and a failure of the test, where the run fails.
  std::vector<std::string> Simulated(const Scenario& scenario, int workers) {
    std::vector<std::string> digests;
    SimulationOptions options;
    options.scenario = scenario;
    options.db_path = Path(fmt::format("{}.sqlite", ++runs_));
    options.workers = workers;
    options.observer.on_round = [&](const RoundReport& report) { digests.push_back(report.model_digest.Hex()); };
    const auto simulation = Simulation::Create(std::move(options));
    EXPECT_OK(simulation);
    if (!simulation.ok()) return digests;
    EXPECT_OK((*simulation)->Run());
    return digests;
  }

  // By agents in threads.
  std::vector<std::string> Deployed(const Scenario& scenario) {
    std::vector<std::string> digests;
    const Status status = [&]() -> Status {
      RunSetup setup(scenario, {.evaluation_threads = 1});
      RIVULET_ASSIGN_OR_RETURN(const auto train, setup.training_data());
      RIVULET_ASSIGN_OR_RETURN(const auto shares, setup.shares());
      CoordinatorOptions options;
      options.scenario = scenario;
      RIVULET_ASSIGN_OR_RETURN(options.plan, setup.plan());
      options.db_path = Path(fmt::format("{}.sqlite", ++runs_));
      options.observer.on_round = [&](const RoundReport& report) { digests.push_back(report.model_digest.Hex()); };
      const std::string states = options.db_path + ".clients";
      RIVULET_ASSIGN_OR_RETURN(const auto coordinator, Coordinator::Create(std::move(options)));
      std::vector<std::thread> threads;
      for (int64_t client = 0; client < shares->size(); ++client) {
        threads.emplace_back([&, client] {
          AgentOptions agent;
          agent.client_id = shares->NameAt(client);
          agent.data = {BoundData{.dataset = train, .indices = shares->ExamplesOf(client)}};
          agent.states = NewStateStore(FileSystem::Default(), states, false);
          agent.sleep = [](int64_t) { std::this_thread::yield(); };
          EXPECT_OK(Agent(*coordinator, std::move(agent)).Run());
        });
      }
      const Status end = coordinator->Wait();
      for (std::thread& thread : threads) thread.join();
      return end;
    }();
    EXPECT_OK(status);
    return digests;
  }

 private:
  int runs_ = 0;
};

TEST_F(EveryAlgorithmTest, AnyWorkersAndDeployed_SameBits) {
  const testing::UsesExternalMean external;
  for (const Algorithm* algorithm : Algorithms()) {
    SCOPED_TRACE(algorithm->name);
    const Scenario scenario = ScenarioOf(algorithm->name);
    const std::vector<std::string> one = Simulated(scenario, 1);
    ASSERT_EQ(one.size(), 2u);
    for (const int workers : {2, 3, 16}) EXPECT_EQ(Simulated(scenario, workers), one) << workers;
    // Who is first among clients of an asynchronous deployment nobody knows.
    if (algorithm->name == "fedbuff" || algorithm->name == "fedasync") continue;
    EXPECT_EQ(Deployed(scenario), one);
  }
}

TEST_F(EveryAlgorithmTest, EveryCodec_SameBitsByAnyWorkersAndDeployed) {
  std::set<std::vector<std::string>> all;
  const std::vector<std::string> names = SettingTableNames("codec");
  for (const std::string& codec : names) {
    SCOPED_TRACE(codec);
    Scenario scenario = ScenarioOf("fedavg");
    scenario.update.codec = codec;
    scenario.update.settings["fraction"] = 0.1;
    const std::vector<std::string> one = Simulated(scenario, 1);
    EXPECT_EQ(Simulated(scenario, 3), one);
    EXPECT_EQ(Deployed(scenario), one);
    all.insert(one);
  }
  const auto elias = std::ranges::count_if(names, [](const auto& name) { return name.starts_with("elias"); });
  EXPECT_EQ(all.size(), names.size() - static_cast<size_t>(elias)) << "two do the same that are not one in other bytes";
}

// Clients start from what they decode, in whichever process they are; so a codec that rounds gives other versions.
TEST_F(EveryAlgorithmTest, EveryDownload_SameBitsByAnyWorkersAndDeployed) {
  std::set<std::vector<std::string>> all;
  for (const char* codec : {"f32", "f16", "bf16", "int8", "int4", "qsgd4", "elias7", "eden2"}) {
    SCOPED_TRACE(codec);
    Scenario scenario = ScenarioOf("fedavg");
    scenario.server.download = codec;
    scenario.evaluation.federated_every = 1;
    const std::vector<std::string> one = Simulated(scenario, 1);
    EXPECT_EQ(Simulated(scenario, 3), one);
    EXPECT_EQ(Deployed(scenario), one);
    all.insert(one);
  }
  EXPECT_EQ(all.size(), 7u) << "two do the same that are not one in other bytes, as qsgd4 and elias7 are";
}

TEST_F(EveryAlgorithmTest, EverySelection_SameBitsByAnyWorkersAndDeployed) {
  std::set<std::vector<std::string>> all;
  const std::vector<std::string> names = SettingTableNames("selection");
  for (const std::string& selection : names) {
    SCOPED_TRACE(selection);
    Scenario scenario = ScenarioOf("fedavg");
    scenario.run.rounds = 4;
    // Of four a version, those in turns and those who have rested are the same for want of others.
    scenario.server.clients_per_round = 3;
    scenario.data.partition.settings = {{"sizes", "exponential"}, {"skew", 0.3}};
    scenario.selection.name = selection;
    if (selection == "poisson") scenario.selection.settings = {{"rate", 0.6}};
    if (selection == "spaced") scenario.selection.settings = {{"separation", int64_t{2}}};
    const std::vector<std::string> one = Simulated(scenario, 1);
    ASSERT_EQ(one.size(), 4u);
    EXPECT_EQ(Simulated(scenario, 3), one);
    EXPECT_EQ(Deployed(scenario), one);
    all.insert(one);
  }
  EXPECT_EQ(all.size(), names.size()) << "two of them do the same";
}

TEST_F(EveryAlgorithmTest, InItsLimit_IsFederatedAveragingToTheBit) {
  struct Limit {
    const char* algorithm;
    SettingValues settings;
    const char* weights;  // of the federated averaging that it is
  };
  const std::vector<Limit> limits = {
      {"fedavgm", {{"beta", 0.0}}, "examples"},
      {"fedyogi", {{"beta1", 0.0}, {"beta2", 1.0}, {"tau", 1.0}, {"initial_accumulator", 0.0}}, "examples"},
      {"fedexp", {{"epsilon", 1e6}}, "examples"},
      {"feddyn", {{"alpha", 0.0}}, "uniform"},
      {"q_fedavg", {{"q", 0.0}}, "uniform"},
      {"multi_krum", {{"byzantine", 0.0}}, "uniform"},
      {"reptile", {}, "uniform"},
      {"term", {{"t", 0.0}}, "uniform"},
      {"apfl", {{"alpha", 0.25}}, "examples"},
      {"geometric_median", {{"iterations", int64_t{0}}}, "uniform"},
      {"centered_clipping", {{"tau", 1e6}}, "uniform"},
      {"norm_bound", {{"bound", 1e6}}, "uniform"},
      {"ifca", {{"clusters", int64_t{1}}}, "uniform"},
      {"hypcluster", {{"clusters", int64_t{1}}}, "examples"},
  };
  std::map<std::string, std::vector<std::string>> averages;
  for (const char* weights : {"examples", "uniform"}) {
    Scenario scenario = ScenarioOf("fedavg");
    scenario.server.weights = weights;
    averages[weights] = Simulated(scenario, 2);
  }
  EXPECT_NE(averages["examples"], averages["uniform"]);
  for (const Limit& limit : limits) {
    Scenario scenario = ScenarioOf(limit.algorithm);
    scenario.algorithm.settings = limit.settings;
    EXPECT_EQ(Simulated(scenario, 2), averages[limit.weights]) << limit.algorithm;
  }
}

// What clients count is of 2^-12, where federated averaging counts them whole: sums of nearly all bits of each.
TEST_F(EveryAlgorithmTest, AgnosticWithoutAscent_IsFederatedAveragingOfUniformWeights) {
  const auto of = [&](const char* algorithm) {
    Scenario scenario = ScenarioOf(algorithm);
    scenario.server.weights = "uniform";
    scenario.server.value_bits = 0;
    scenario.server.max_weight = 2;
    if (scenario.algorithm.name == "agnostic") scenario.algorithm.settings["weights_learning_rate"] = 0.0;
    return Simulated(scenario, 2);
  };
  EXPECT_EQ(of("agnostic"), of("fedavg"));
}

// Its numbers lie in each version's file, move by what clients told, and are the same deployed.
TEST_F(EveryAlgorithmTest, FedProxWhoseMuMoves_SameBitsByAnyWorkersAndDeployed) {
  Scenario scenario = ScenarioOf("fedprox");
  scenario.run.rounds = 4;
  scenario.algorithm.settings = {{"mu", 0.5}, {"mu_step", 0.4}, {"mu_falls", int64_t{1}}};
  const std::vector<std::string> one = Simulated(scenario, 1);
  ASSERT_EQ(one.size(), 4u);
  for (const int workers : {2, 3, 16}) EXPECT_EQ(Simulated(scenario, workers), one) << workers;
  EXPECT_EQ(Deployed(scenario), one);
  scenario.algorithm.settings = {{"mu", 0.5}};
  const std::vector<std::string> constant = Simulated(scenario, 2);
  EXPECT_EQ(constant[1], one[1]) << "two losses are compared first";
  EXPECT_NE(constant[2], one[2]);
}

// One model a version, of which sums round nothing.
TEST_F(EveryAlgorithmTest, FedAsyncWithoutStaleness_IsFederatedAveragingOfOneClient) {
  const auto of_one = [&](const char* algorithm) {
    Scenario scenario = ScenarioOf(algorithm);
    scenario.run.rounds = 4;
    scenario.server.clients_per_round = 1;
    scenario.server.base = "committed";
    scenario.server.weights = "uniform";
    scenario.server.learning_rate = 0.75;
    scenario.server.value_bits = 0;
    if (scenario.algorithm.name == "fedasync") scenario.algorithm.settings["rho"] = 0.0;
    return scenario;
  };
  EXPECT_EQ(Simulated(of_one("fedasync"), 2), Simulated(of_one("fedavg"), 2));
}

// The first step ahead is of no length, and every second batch, which is all examples, is a step of its own.
TEST_F(EveryAlgorithmTest, PerFedAvgThatLooksNowhere_IsFederatedAveragingByEveryOtherBatch) {
  const auto whole = [&](const char* algorithm, int64_t epochs) {
    Scenario scenario = ScenarioOf(algorithm);
    scenario.client.shuffle = false;
    scenario.client.batch_size = 1000;
    scenario.client.epochs = epochs;
    scenario.server.weights = "uniform";
    if (scenario.algorithm.name == "per_fedavg") scenario.algorithm.settings["alpha"] = 0.0;
    return Simulated(scenario, 2);
  };
  const std::vector<std::string> three = whole("fedavg", 3);
  EXPECT_EQ(whole("per_fedavg", 6), three);
  EXPECT_EQ(whole("per_fedavg", 7), three) << "what is left over is for nothing";
}

// Of the server's rate each version has its own; an average of versions is measured, and moves none of them.
TEST_F(EveryAlgorithmTest, ServersScheduleAndAverage_SameBitsByAnyWorkersAndDeployed) {
  Scenario scenario = ScenarioOf("fedadam");
  scenario.run.rounds = 4;
  const std::vector<std::string> constant = Simulated(scenario, 1);
  scenario.server.average = 0.9;
  EXPECT_EQ(Simulated(scenario, 2), constant);
  scenario.server.schedule = {.kind = "cosine", .settings = {{"length", int64_t{4}}}};
  const std::vector<std::string> cosine = Simulated(scenario, 1);
  ASSERT_EQ(cosine.size(), 4u);
  EXPECT_EQ(cosine[0], constant[0]) << "it begins with the rate itself";
  EXPECT_NE(cosine[1], constant[1]);
  for (const int workers : {2, 3, 16}) EXPECT_EQ(Simulated(scenario, workers), cosine) << workers;
  EXPECT_EQ(Deployed(scenario), cosine);
}

}  // namespace
}  // namespace rivulet
