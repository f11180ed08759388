// Several models, of which each client chooses one (federated/algorithms/ifca.cc), in whole runs.
#include <set>

#include "coordinator/history/questions.h"
#include "tests/simulations/whole_runs.h"

namespace rivulet {
namespace {

class ClustersTest : public CountingTest {
 protected:
  Scenario ClusterScenario(const std::string& algorithm = "ifca") {
    Scenario scenario = CountingScenario();
    scenario.algorithm = {.name = algorithm, .settings = {{"clusters", int64_t{2}}}};
    return scenario;
  }

  // Twelve writers who see alike and call what they see by two names: every second calls each digit the next one.
  std::string WriteTwoGroups() {
    std::vector<std::string> records;
    uint32_t state = 5;
    for (int i = 0; i < 480; ++i) {
      const int writer = i % 12, seen = i / 12 % 10;
      std::string image(784, '\0');
      for (size_t k = 0; k < image.size(); ++k) {
        state = state * 1664525u + 1013904223u;
        const uint32_t noise = state >> 30;
        image[k] = static_cast<char>(static_cast<int>(k) / 79 == seen ? 150 + noise : noise);
      }
      records.push_back(DigitExample(image, (seen + writer % 2) % 10, fmt::format("w{:02}", writer)));
    }
    return WriteRecords("groups.tfrecord", records);
  }

  double Newest(const std::string& db, const std::string& name) {
    const auto history = *History::Open(Path(db), History::Access::kReadOnly);
    double newest = -1;
    const auto rows = history->Metrics(history->ResolveRun("latest")->run_id, "federated");
    EXPECT_OK(rows);
    for (const MetricRow& row : *rows)
      if (row.name == name) newest = row.value.value_or(-1);
    return newest;
  }
};

TEST_F(ClustersTest, HoweverItIsRun_SameBits) {
  Scenario scenario = ClusterScenario();
  ExpectSameHoweverItIsRun(scenario);
}

TEST_F(ClustersTest, MeasuredByClientsAndByCodec_SameBits) {
  Scenario scenario = ClusterScenario("hypcluster");
  scenario.run.rounds = 3;
  const Trace plain = Simulate(scenario, 2, "plain.sqlite");
  ASSERT_OK(plain.status);
  scenario.evaluation.federated_every = 1;
  scenario.evaluation.every = 1;
  const Trace measured = Simulate(scenario, 3, "measured.sqlite");
  ASSERT_OK(measured.status);
  EXPECT_EQ(measured.digests, plain.digests);
  EXPECT_EQ(measured.central.back().count("test/accuracy"), 1u);
  EXPECT_EQ(measured.central.back().count("cluster_1/test/accuracy"), 1u);
  EXPECT_NE(measured.central.back().at("test/loss"), measured.central.back().at("cluster_1/test/loss"));
  EXPECT_EQ(Deploy(scenario, "deployed.sqlite").digests, plain.digests);
  scenario.update.codec = "top_k";
  scenario.update.settings["fraction"] = 0.1;
  const Trace sparse = Simulate(scenario, 1, "sparse.sqlite");
  ASSERT_OK(sparse.status);
  EXPECT_NE(sparse.digests, plain.digests);
  EXPECT_EQ(Simulate(scenario, 3, "sparse-3.sqlite").digests, sparse.digests);
  EXPECT_EQ(Deploy(scenario, "sparse-deployed.sqlite").digests, sparse.digests);
}

// One model for both would have to call each thing by two names. Which model a group begins with is a matter of the
// seed: where both find the same one best, it stays so.
TEST_F(ClustersTest, PlantedGroups_FindAModelEach) {
  Scenario scenario = ClusterScenario();
  scenario.data.train = WriteTwoGroups();
  scenario.data.partition = {};
  scenario.data.partition.kind = "by_key";
  scenario.client.epochs = 3;
  scenario.server.clients_per_round = 12;
  scenario.evaluation.federated_every = scenario.run.rounds;
  scenario.evaluation.federated_clients = 12;
  Scenario average = scenario;
  average.algorithm = {};
  ASSERT_OK(Simulate(average, 2, "average.sqlite").status);
  EXPECT_LT(Newest("average.sqlite", "evaluate/accuracy"), 0.65);
  int parted = 0;
  for (const uint64_t seed : {11, 12, 13, 14, 15, 16}) {
    SCOPED_TRACE(seed);
    scenario.run.seed = seed;
    const std::string db = fmt::format("clusters-{}.sqlite", seed);
    ASSERT_OK(Simulate(scenario, 2, db).status);
    const auto history = *History::Open(Path(db), History::Access::kReadOnly);
    ASSERT_OK_AND_ASSIGN(const DeclaredNumbers declared, LastDeclared(*history, history->ResolveRun("latest")->run_id));
    ASSERT_EQ(declared.size(), 12u);
    std::set<double> clusters;
    for (const auto& [client, said] : declared) {
      const char* const of_its_group = (client.back() - '0') % 2 == 0 ? "w00" : "w01";
      EXPECT_EQ(said.at("train/cluster"), declared.at(of_its_group).at("train/cluster")) << client;
      clusters.insert(said.at("train/cluster"));
    }
    if (clusters.size() < 2) continue;
    ++parted;
    EXPECT_EQ(clusters, (std::set<double>{0, 1}));
    EXPECT_GT(Newest(db, "personal/accuracy"), 0.95);
  }
  EXPECT_GE(parted, 1);
  fmt::print("{} of 6 seeds part the groups\n", parted);
}

}  // namespace
}  // namespace rivulet
