// Clients' personal models, measured beside the shared one, in whole runs of every mode.
#include "tests/simulations/whole_runs.h"

namespace rivulet {
namespace {

class PersonalEvaluationTest : public CountingTest {
 protected:
  // Clients that have one or two of the ten digits each, and more of them than train in a round.
  Scenario SkewedScenario() {
    Scenario scenario = CountingScenario();
    scenario.algorithm = {.name = "ditto", .settings = {{"lambda", 0.1}}};
    scenario.data.partition.kind = "shards";
    scenario.run.rounds = 6;
    scenario.evaluation.federated_every = 2;
    scenario.evaluation.federated_clients = 8;
    return scenario;
  }

  // Two labels for each image, of which a client mostly has one: its own model learns which, and the one that all share
  // cannot.
  std::string WritePairs() {
    std::vector<std::string> pairs;
    for (int i = 0; i < 205; ++i) {
      const int label = i % 10;
      std::string image(784, '\x14');
      std::fill_n(image.begin() + label / 2 * 150, 150, '\x7f');
      pairs.push_back(DigitExample(image, label));
    }
    return WriteRecords("pairs.tfrecord", pairs);
  }

  // "3 client-00002 personal/loss 0.25": what clients have measured; of the versions from `from_round` on.
  std::vector<std::string> MeasuredBy(const std::string& db, int64_t from_round = 0) {
    std::vector<std::string> lines;
    const auto history = History::Open(Path(db), History::Access::kReadOnly);
    EXPECT_OK(history);
    for (const char* scope : {"federated", "client"}) {
      const auto rows = (*history)->Metrics((*history)->ResolveRun("latest")->run_id, scope);
      EXPECT_OK(rows);
      for (const MetricRow& row : *rows) {
        if (row.name.starts_with("train/") || row.round < from_round) continue;
        lines.push_back(fmt::format("{} {} {} {} {}/{}", row.round, row.client_id, row.name, row.value.value_or(-1),
                                    row.right.value_or(-1), row.total.value_or(-1)));
      }
    }
    return lines;
  }

  std::map<std::string, double> Federated(const std::string& db, int64_t round) {
    std::map<std::string, double> values;
    const auto history = History::Open(Path(db), History::Access::kReadOnly);
    EXPECT_OK(history);
    const auto rows = (*history)->Metrics((*history)->ResolveRun("latest")->run_id, "federated");
    EXPECT_OK(rows);
    for (const MetricRow& row : *rows) {
      if (row.round == round) values[row.name] = row.value.value_or(-1);
    }
    return values;
  }

  // The same figures, whoever computes them and whatever becomes of the process.
  void ExpectSameFiguresHoweverItIsRun(const Scenario& scenario) {
    const Trace one = Simulate(scenario, 1, "1.sqlite");
    ASSERT_OK(one.status);
    const std::vector<std::string> measured = MeasuredBy("1.sqlite");
    ASSERT_THAT(measured, ::testing::Not(IsEmpty()));
    for (const int workers : {2, 3, 16}) {
      const std::string db = fmt::format("{}.sqlite", workers);
      EXPECT_EQ(Simulate(scenario, workers, db).digests, one.digests) << workers;
      EXPECT_EQ(MeasuredBy(db), measured) << workers;
    }
    EXPECT_EQ(BySites(scenario, "sites.sqlite").digests, one.digests);
    EXPECT_EQ(MeasuredBy("sites.sqlite"), measured);
    EXPECT_LE(FilesIn(Path("sites.sqlite.models")), 12u) << "what was kept before goes once it is measured";
    // Clients of a network take their time: a version whose turn does not come before the next is due is left out.
    EXPECT_EQ(Deploy(scenario, "deployed.sqlite").digests, one.digests);
    EXPECT_THAT(measured, ::testing::IsSupersetOf(MeasuredBy("deployed.sqlite")));
    EXPECT_EQ(MeasuredBy("deployed.sqlite", scenario.run.rounds), MeasuredBy("1.sqlite", scenario.run.rounds));
    // A version that was being measured when the process died is measured again, unless two more were made meanwhile.
    ExpectSameWhenKilled(scenario, [&](const std::string& db) {
      EXPECT_THAT(measured, ::testing::IsSupersetOf(MeasuredBy(db)));
      EXPECT_EQ(MeasuredBy(db, scenario.run.rounds), MeasuredBy("1.sqlite", scenario.run.rounds));
    });
  }
};

TEST_F(PersonalEvaluationTest, Ditto_SameFiguresHoweverItIsRun) {
  Scenario scenario = SkewedScenario();
  scenario.run.rounds = 8;
  scenario.evaluation.federated_every = 1;
  ExpectSameFiguresHoweverItIsRun(scenario);
}

TEST_F(PersonalEvaluationTest, PersonalLayers_SameFiguresHoweverItIsRun) {
  Scenario scenario = SkewedScenario();
  scenario.run.rounds = 8;
  scenario.algorithm = {.name = "fedper"};
  scenario.model.preset = "mlp";
  scenario.model.personal = {"dense3/*"};
  ExpectSameFiguresHoweverItIsRun(scenario);
  const std::map<std::string, double> last = Federated("1.sqlite", 8);
  EXPECT_TRUE(last.contains("personal/accuracy/p10"));
  EXPECT_FALSE(last.contains("evaluate/accuracy")) << "no version has the layers that clients keep";
}

TEST_F(PersonalEvaluationTest, Ditto_OwnModelsAreBetterWhereLabelsAreSkewed) {
  Scenario scenario = SkewedScenario();
  scenario.data.train = WritePairs();
  scenario.run.rounds = 12;
  scenario.evaluation.federated_every = 12;
  scenario.evaluation.federated_clients = 12;
  ASSERT_OK(Simulate(scenario, 2, "a.sqlite").status);
  const std::map<std::string, double> last = Federated("a.sqlite", 12);
  EXPECT_GT(last.at("personal/accuracy"), last.at("evaluate/accuracy") + 0.1);
  EXPECT_GT(last.at("personal/accuracy/p10"), last.at("evaluate/accuracy/p10"));
  EXPECT_LT(last.at("personal/loss"), last.at("evaluate/loss"));
}

// Who has none yet is measured with the shared model for its own, and the rows say so.
TEST_F(PersonalEvaluationTest, WhoHasTrainedNone_IsMeasuredWithTheSharedModel) {
  Scenario scenario = SkewedScenario();
  scenario.run.rounds = 1;
  scenario.evaluation.federated_every = 1;
  scenario.evaluation.federated_clients = 12;
  ASSERT_OK(Simulate(scenario, 2, "a.sqlite").status);
  const auto history = *History::Open(Path("a.sqlite"), History::Access::kReadOnly);
  ASSERT_OK_AND_ASSIGN(const auto rows, history->Metrics(history->ResolveRun("latest")->run_id, "client"));
  std::map<std::string, std::map<std::string, double>> clients;
  for (const MetricRow& row : rows) clients[row.client_id][row.name] = row.value.value_or(-1);
  ASSERT_EQ(clients.size(), 12u);
  int64_t own = 0;
  for (const auto& [client_id, values] : clients) {
    const bool trained = values.at("personal/trained") == 1;
    EXPECT_EQ(values.contains("train/loss"), trained) << client_id;
    EXPECT_EQ(values.at("personal/loss") == values.at("evaluate/loss"), !trained) << client_id;
    own += trained;
  }
  EXPECT_EQ(own, 4);
  EXPECT_EQ(Federated("a.sqlite", 1).at("personal/trained"), 4.0 / 12);
}

// A model that nobody keeps: each client fits the version to its own digits, and measures that.
TEST_F(PersonalEvaluationTest, FineTuned_IsBetterWhereLabelsAreSkewedAndTheSameForAnyWorkers) {
  Scenario scenario = SkewedScenario();
  scenario.data.train = WritePairs();
  scenario.algorithm = {.name = "fedavg"};
  const Trace plain = Simulate(scenario, 2, "plain.sqlite");
  scenario.evaluation.fine_tune_epochs = 2;
  const Trace one = Simulate(scenario, 1, "1.sqlite");
  ASSERT_OK(one.status);
  EXPECT_EQ(one.digests, plain.digests) << "training hears nothing of it";
  EXPECT_EQ(Simulate(scenario, 3, "3.sqlite").digests, one.digests);
  EXPECT_EQ(MeasuredBy("3.sqlite"), MeasuredBy("1.sqlite"));
  EXPECT_EQ(BySites(scenario, "sites.sqlite").digests, one.digests);
  EXPECT_EQ(MeasuredBy("sites.sqlite"), MeasuredBy("1.sqlite"));
  const std::map<std::string, double> last = Federated("1.sqlite", 6);
  EXPECT_GT(last.at("personal/accuracy"), last.at("evaluate/accuracy") + 0.1);
  EXPECT_FALSE(last.contains("personal/trained"));
}

}  // namespace
}  // namespace rivulet
