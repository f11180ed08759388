// Runs of a simulation: they train, give the same bits with any number of workers, resume after a stop, and report
// errors.
#include "engine/graphdef/graph_def.h"
#include "engine/presets/presets.h"
#include "tests/simulations/whole_runs.h"

namespace rivulet {
namespace {

TEST_F(SimulatorTest, Run_TrainsAndEvaluates) {
  const Trace trace = Simulate(SmallScenario(), 2, "a.sqlite");
  ASSERT_OK(trace.status);
  ASSERT_THAT(trace.digests, SizeIs(5));
  EXPECT_EQ(trace.digests.back(), "5 " + trace.final_digest);
  EXPECT_THAT(trace.central[0], IsEmpty());
  EXPECT_THAT(trace.central[1], SizeIs(2));
  EXPECT_GT(trace.central[4].at("test/accuracy"), 0.9);  // the last round is always evaluated
  EXPECT_LT(trace.central[4].at("test/loss"), trace.central[1].at("test/loss"));
}

// Property: the number of workers changes neither a bit of any model, nor which tasks are offered and folded, nor an
// evaluation.
TEST_F(SimulatorTest, AnyNumberOfWorkers_SameBits) {
  const Scenario scenario = SmallScenario();
  const Trace one = Simulate(scenario, 1, "1.sqlite");
  ASSERT_OK(one.status);
  ASSERT_THAT(one.offers, SizeIs(20));
  for (const int workers : {2, 3, 16}) {
    const Trace many = Simulate(scenario, workers, fmt::format("{}.sqlite", workers));
    ASSERT_OK(many.status);
    EXPECT_EQ(many.digests, one.digests) << workers;
    EXPECT_EQ(many.central, one.central) << workers;
    EXPECT_EQ(many.offers, one.offers) << workers;
    EXPECT_EQ(many.folds, one.folds) << workers;
    EXPECT_EQ(many.ends, one.ends) << workers;
  }
}

TEST_F(SimulatorTest, DeployedAgents_DoWhatTheSimulationDid) {
  const Scenario scenario = SmallScenario();
  const Trace simulated = Simulate(scenario, 2, "simulated.sqlite");
  const Trace deployed = Deploy(scenario, "deployed.sqlite");
  ASSERT_OK(simulated.status);
  ASSERT_OK(deployed.status);
  EXPECT_EQ(deployed.digests, simulated.digests);
  EXPECT_EQ(deployed.offers, simulated.offers);
  EXPECT_EQ(deployed.folds, simulated.folds);
  EXPECT_EQ(deployed.ends, simulated.ends);
  EXPECT_EQ(deployed.central, simulated.central);
}

// Whose examples weigh nothing may have any number of them.
TEST_F(SimulatorTest, ClientHeavierThanMaxWeight_MayTakePartWhereAllCountTheSame) {
  Scenario scenario = SmallScenario();
  scenario.server.max_weight = 17;
  scenario.server.weights = "uniform";
  EXPECT_OK(Simulate(scenario, 2, "a.sqlite").status);
}

TEST_F(SimulatorTest, AnotherSeed_OtherModels) {
  Scenario scenario = SmallScenario();
  const Trace first = Simulate(scenario, 2, "a.sqlite");
  scenario.run.seed = 12;
  const Trace second = Simulate(scenario, 2, "b.sqlite");
  EXPECT_NE(first.final_digest, second.final_digest);
}

TEST_F(SimulatorTest, StoppedAndResumed_EndsAtTheSameBits) {
  const Scenario scenario = SmallScenario();
  const Trace whole = Simulate(scenario, 2, "whole.sqlite");
  const Trace before = Simulate(scenario, 2, "parts.sqlite", "", 2);
  EXPECT_THAT(before.status, StatusIs(absl::StatusCode::kCancelled));
  ASSERT_GE(before.digests.size(), 2u);
  const Trace after = Simulate(scenario, 3, "parts.sqlite", "latest");
  ASSERT_OK(after.status);
  EXPECT_EQ(after.final_digest, whole.final_digest);
  std::vector<std::string> digests = before.digests;
  digests.insert(digests.end(), after.digests.begin(), after.digests.end());
  EXPECT_EQ(digests, whole.digests);
}

TEST_F(SimulatorTest, FinishedRunResumed_DoesNothing) {
  const Scenario scenario = SmallScenario();
  const Trace whole = Simulate(scenario, 2, "a.sqlite");
  const Trace again = Simulate(scenario, 2, "a.sqlite", "latest");
  ASSERT_OK(again.status);
  EXPECT_THAT(again.digests, IsEmpty());
  EXPECT_EQ(again.final_digest, whole.final_digest);
}

TEST_F(SimulatorTest, GraphFile_TrainsToTheBitsOfThePresetItHolds) {
  Scenario scenario = SmallScenario();
  const Trace preset = Simulate(scenario, 2, "preset.sqlite");
  const auto model = Preset("logistic_regression");
  ASSERT_OK(model);
  scenario.model.preset = "";
  scenario.model.graph = Path("model.pb");
  scenario.model.loss = model->train_loss;
  scenario.model.metrics = {model->metrics[0].second};
  scenario.model.image_input = model->input.placeholder;
  scenario.model.label_input = model->label.placeholder;
  ASSERT_OK(WriteFileAtomically(FileSystem::Default(), scenario.model.graph, SerializeGraph(model->graph)));
  const Trace graph = Simulate(scenario, 2, "graph.sqlite");
  ASSERT_OK(graph.status);
  EXPECT_EQ(graph.digests, preset.digests);
  EXPECT_EQ(graph.central.back().at("test/loss"), preset.central.back().at("test/loss"));
}

TEST_F(SimulatorTest, GraphFileThatIsNone_IsNamed) {
  Scenario scenario = SmallScenario();
  scenario.model.preset = "";
  scenario.model.graph = WriteRecords("model.pb", {"not a graph"});
  const Trace trace = Simulate(scenario, 2, "a.sqlite");
  EXPECT_THAT(Message(trace.status), HasSubstr("model.pb"));
  scenario.model.graph = Path("absent.pb");
  EXPECT_THAT(Message(Simulate(scenario, 2, "a.sqlite").status), HasSubstr("absent.pb"));
}

TEST_F(SimulatorTest, ByKeyWithoutANumber_TakesEveryWriter) {
  Scenario scenario = SmallScenario();
  std::vector<std::string> records;
  for (int i = 0; i < 60; ++i)
    records.push_back(DigitExample(std::string(784, 'x'), i % 10, fmt::format("w{}", i % 6)));
  scenario.data.train = WriteRecords("writers.tfrecord", records);
  scenario.data.partition = {};
  scenario.data.partition.kind = "by_key";
  scenario.run.rounds = 2;
  const Trace trace = Simulate(scenario, 2, "a.sqlite");
  ASSERT_OK(trace.status);
  for (const std::string& offer : trace.offers) EXPECT_THAT(offer, HasSubstr(" w"));
}

TEST_F(SimulatorTest, TenThousandClients_CostRowsOnly) {
  Scenario scenario = SmallScenario();
  scenario.data.train = WriteRecords("many.tfrecord", DigitRecords(10'000));
  scenario.data.partition.clients = 10'000;
  scenario.run.rounds = 2;
  const Trace trace = Simulate(scenario, 2, "a.sqlite");
  ASSERT_OK(trace.status);
  EXPECT_THAT(trace.offers, SizeIs(8));
}

// Whoever has it fails and is replaced by the next of the draw, deployed as simulated.
TEST_F(SimulatorTest, RecordThatCannotBeTrained_RunGoesOnWithoutItsClientAndItsRowNamesIt) {
  Scenario scenario = SmallScenario();
  std::vector<std::string> records = DigitRecords(205);
  records[100] = DigitExample(std::string(784, 'x'), 42);
  scenario.data.train = WriteRecords("bad.tfrecord", records);
  const Trace one = Simulate(scenario, 1, "1.sqlite");
  ASSERT_OK(one.status);
  EXPECT_GT(one.offers.size(), 20u) << "it was never drawn";
  for (const Trace& other : {Simulate(scenario, 3, "3.sqlite"), Deploy(scenario, "deployed.sqlite")}) {
    ASSERT_OK(other.status);
    EXPECT_EQ(other.digests, one.digests);
    EXPECT_EQ(other.offers, one.offers);
    EXPECT_EQ(other.folds, one.folds);
    EXPECT_EQ(other.ends, one.ends);
  }
  const auto history = *History::Open(Path("1.sqlite"), History::Access::kReadOnly);
  const auto rows = history->ClientRounds(history->ResolveRun("latest")->run_id);
  ASSERT_OK(rows);
  int failed = 0;
  for (const ClientRoundRow& row : *rows) {
    if (row.status == "folded") continue;
    EXPECT_EQ(row.status, "failed");
    EXPECT_THAT(row.error, ::testing::AllOf(HasSubstr("bad.tfrecord: record 100 at byte"),
                                            HasSubstr("'label' is 42, but the model has classes 0 to 9")));
    ++failed;
  }
  EXPECT_GT(failed, 0);
}

TEST_F(SimulatorTest, RecordsThatCannotBeTrained_OfTooMany_EndTheRunNamingOne) {
  Scenario scenario = SmallScenario();
  std::vector<std::string> records = DigitRecords(205);
  for (size_t i = 100; i < records.size(); ++i) records[i] = DigitExample(std::string(784, 'x'), 42);
  scenario.data.train = WriteRecords("bad.tfrecord", records);
  scenario.server.max_attempts = 2;
  const Trace trace = Simulate(scenario, 2, "a.sqlite");
  EXPECT_THAT(Message(trace.status), ::testing::AllOf(HasSubstr("bad.tfrecord: record "),
                                                      HasSubstr("'label' is 42, but the model has classes 0 to 9")));
  EXPECT_THAT(trace.digests, SizeIs(2));  // both attempts were abandoned
}

// Where training and folding are one, a bad update ends as one that was sent.
TEST_F(SimulatorTest, UpdateBeyondTheBound_IsRefusedInTheWordsOfAnUpload) {
  Scenario scenario = SmallScenario();
  scenario.server.value_bits = -30;
  scenario.server.max_attempts = 1;
  const auto words = [](const Trace& trace) {
    std::string text(Message(trace.status));
    const size_t begin = text.find("task '"), end = text.find("-r1-");
    if (begin == text.npos || end == text.npos) return text;
    return text.erase(begin, end - begin);  // the run's id tells when it began
  };
  const Trace deployed = Deploy(scenario, "deployed.sqlite");
  EXPECT_THAT(words(deployed), ::testing::AllOf(HasSubstr("refused: the update of"), HasSubstr("beyond ±2^-30")));
  for (const int workers : {1, 16}) {
    const Trace simulated = Simulate(scenario, workers, fmt::format("{}.sqlite", workers));
    EXPECT_EQ(words(simulated), words(deployed));
    EXPECT_EQ(simulated.folds, deployed.folds);
  }
}

// One worker trains clients of one step several at a time; agents, and workers beyond the processors, one by one. Some
// clients have half their examples of one class, and an update beyond the bound: they are refused in the midst of
// others.
TEST_F(SimulatorTest, ClientsOfOneStepTrainedTogether_GiveTheBitsAndRefusalsOfEachByItself) {
  Scenario scenario = SmallScenario();
  scenario.data.train = WriteRecords("even.tfrecord", DigitRecords(600));
  scenario.data.partition.clients = 100;
  scenario.model.preset = "mlp";
  scenario.client.batch_size = 6;
  scenario.server.clients_per_round = 40;
  scenario.server.value_bits = -5;
  scenario.run.rounds = 3;
  const Trace one = Simulate(scenario, 1, "1.sqlite");
  ASSERT_OK(one.status);
  for (const Trace& other :
       {Simulate(scenario, 2, "2.sqlite"), Simulate(scenario, 16, "16.sqlite"), Deploy(scenario, "deployed.sqlite")}) {
    ASSERT_OK(other.status);
    EXPECT_EQ(other.digests, one.digests);
    EXPECT_EQ(other.offers, one.offers);
    EXPECT_EQ(other.folds, one.folds);
    EXPECT_EQ(other.ends, one.ends);
  }
  const auto history = *History::Open(Path("1.sqlite"), History::Access::kReadOnly);
  const auto rows = history->ClientRounds(history->ResolveRun("latest")->run_id);
  ASSERT_OK(rows);
  int64_t refused = 0, folded = 0;
  for (const ClientRoundRow& row : *rows) {
    folded += row.status == "folded";
    if (row.status == "folded") continue;
    EXPECT_THAT(row.error, HasSubstr("beyond ±2^-5"));
    ++refused;
  }
  EXPECT_EQ(folded, 120);
  EXPECT_GT(refused, 0);
}

TEST_F(SimulatorTest, FirstRecordOfTheWrongSize_IsToldBeforeTheRunHasARow) {
  Scenario scenario = SmallScenario();
  scenario.data.train = WriteRecords("small.tfrecord", std::vector<std::string>(20, DigitExample("tiny", 1)));
  const Trace trace = Simulate(scenario, 2, "a.sqlite");
  EXPECT_THAT(trace.status,
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("small.tfrecord: record 0 at byte 0")));
  EXPECT_THAT(Message(trace.status), HasSubstr("data.input_feature and data.label_feature name"));
  EXPECT_FALSE(std::filesystem::exists(Path("a.sqlite")));
}

TEST_F(SimulatorTest, TestSetOfTheWrongSize_IsToldBeforeTheRunHasARow) {
  Scenario scenario = SmallScenario();
  scenario.data.test = WriteRecords("small.tfrecord", std::vector<std::string>(20, DigitExample("tiny", 1)));
  const Trace trace = Simulate(scenario, 2, "a.sqlite");
  EXPECT_THAT(Message(trace.status), HasSubstr("small.tfrecord: record 0 at byte 0"));
  EXPECT_FALSE(std::filesystem::exists(Path("a.sqlite")));
}

TEST_F(SimulatorTest, MoreClientsPerRoundThanClients_IsRefused) {
  Scenario scenario = SmallScenario();
  scenario.server.clients_per_round = 13;
  const Trace trace = Simulate(scenario, 2, "a.sqlite");
  EXPECT_THAT(trace.status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       ::testing::AllOf(HasSubstr("server.clients_per_round is 13"), HasSubstr("12 clients"))));
}

TEST_F(SimulatorTest, ClientHeavierThanMaxWeight_IsRefusedByName) {
  Scenario scenario = SmallScenario();
  scenario.server.max_weight = 17;
  const Trace trace = Simulate(scenario, 2, "a.sqlite");
  EXPECT_THAT(trace.status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       ::testing::AllOf(HasSubstr("client-00000"), HasSubstr("server.max_weight is 17"))));
}

TEST_F(SimulatorTest, MissingTrainingFile_IsNamed) {
  Scenario scenario = SmallScenario();
  scenario.data.train = Path("absent.tfrecord");
  const Trace trace = Simulate(scenario, 2, "a.sqlite");
  EXPECT_THAT(trace.status, StatusIs(absl::StatusCode::kNotFound, HasSubstr("absent.tfrecord")));
}

TEST_F(SimulatorTest, UnknownPreset_NamesTheNearest) {
  Scenario scenario = SmallScenario();
  scenario.model.preset = "logistic_regresion";
  const Trace trace = Simulate(scenario, 2, "a.sqlite");
  EXPECT_THAT(trace.status, StatusIs(absl::StatusCode::kNotFound, HasSubstr("logistic_regression")));
}

}  // namespace
}  // namespace rivulet
