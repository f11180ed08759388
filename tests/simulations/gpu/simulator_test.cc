// Whole runs on a device: the same bits for any number of lanes and workers, near those of the host, and refused
// updates, states and encodings as everywhere.
#include "engine/graph/scope.h"
#include "engine/graphdef/graph_def.h"
#include "engine/profile/tracer.h"
#include "tests/emulated_gpu/emulated_backend.h"
#include "tests/simulations/whole_runs.h"

namespace rivulet {
namespace {

class GpuSimulatorTest : public SimulatorTest {
 protected:
  void SetUp() override {
    SimulatorTest::SetUp();
    ASSERT_OK_AND_ASSIGN(gpu_, GpuDevice::Open(gpu::EmulatedBackend(), 0));
  }

  // Clients of unlike sizes.
  Scenario UnlikeScenario() {
    Scenario scenario = SmallScenario();
    scenario.run.rounds = 3;
    scenario.data.partition.settings["sizes"] = "linear";
    return scenario;
  }

  Trace OnDevice(const Scenario& scenario, int lanes, int workers, const std::string& db) {
    device_ = {gpu_, lanes};
    const Trace trace = Simulate(scenario, workers, db);
    device_ = {};
    return trace;
  }

  // Evaluations by clients go on beside the next round, and when one ends is a matter of time.
  static std::vector<std::string> OfRounds(std::vector<std::string> folds) {
    std::erase_if(folds, [](const std::string& fold) { return !fold.starts_with("fold r"); });
    return InOrder(std::move(folds));
  }
  static std::vector<std::string> InOrder(std::vector<std::string> folds) {
    std::ranges::sort(folds);
    return folds;
  }

  void ExpectAnyLanes(const Scenario& scenario) {
    const Trace one = OnDevice(scenario, 1, 1, "1.sqlite");
    ASSERT_OK(one.status);
    int number = 1;
    for (const auto& [lanes, workers] : {std::pair{2, 1}, std::pair{64, 1}, std::pair{3, 2}}) {
      SCOPED_TRACE(fmt::format("{} lanes, {} workers", lanes, workers));
      const Trace other = OnDevice(scenario, lanes, workers, fmt::format("{}.sqlite", ++number));
      ASSERT_OK(other.status);
      EXPECT_EQ(other.digests, one.digests);
      EXPECT_EQ(OfRounds(other.folds), OfRounds(one.folds));
      EXPECT_EQ(other.central, one.central);
    }
    const Trace host = Simulate(scenario, 2, "host.sqlite");
    ASSERT_OK(host.status);
    EXPECT_EQ(InOrder(host.offers), InOrder(one.offers));
    for (const auto& [name, value] : host.central.back()) {
      EXPECT_NEAR(one.central.back().at(name), value, 0.02) << name;
    }
  }

  std::shared_ptr<GpuDevice> gpu_;
};

// How tasks that were trained together ended, by the rows of their clients: "failed: record 100 …".
class OutcomesOfGroups : public Tracer {
 public:
  void NameThread(std::string_view) override {}
  TraceRow Row(std::string_view, std::string_view) override { return {.process = 1, .thread = 1}; }
  void Complete(TraceRow, std::string_view category, std::string_view, int64_t, int64_t,
                std::span<const TraceArg> args) override {
    std::map<std::string_view, std::string> texts;
    bool together = false;
    for (const TraceArg& arg : args) {
      together = together || arg.name == "lanes";
      if (const auto* text = std::get_if<std::string_view>(&arg.value)) texts[arg.name] = *text;
    }
    if (category != "client" || !together) return;
    MutexLock lock(mutex_);
    outcomes_[texts["task"]] = texts["outcome"] + (texts.contains("reason") ? ": " + texts["reason"] : "");
  }
  void Instant(TraceRow, std::string_view, std::string_view, std::span<const TraceArg>) override {}
  void Counter(std::string_view, double) override {}
  void Arrow(TraceRow, Flow, std::string_view, std::string_view) override {}

  std::map<std::string, std::string> outcomes() {  // by task
    MutexLock lock(mutex_);
    return outcomes_;
  }

 private:
  Mutex mutex_;
  std::map<std::string, std::string> outcomes_;
};

TEST(TrainingDeviceTest, Workers_TakeDevicesInTurn) {
  TrainingDevice both;
  EXPECT_EQ(both.count(), 0);
  EXPECT_EQ(both.Of(3).device, nullptr);
  ASSERT_OK_AND_ASSIGN(both.device, GpuDevice::Open(gpu::EmulatedBackend(), 0));
  EXPECT_EQ(both.Of(3).device->number(), 0);
  ASSERT_OK_AND_ASSIGN(both.more.emplace_back(), GpuDevice::Open(gpu::EmulatedBackend(), 1));
  EXPECT_EQ(both.count(), 2);
  for (int worker = 0; worker < 5; ++worker) {
    EXPECT_EQ(both.Of(worker).device->number(), worker % 2);
    EXPECT_EQ(both.Of(worker).count(), 1);
  }
}

// One worker gets the whole cohort and trains it at once, but for the very first task of a run.
TEST_F(GpuSimulatorTest, Cohort_GoesToTheDeviceAtOnce) {
  const Scenario scenario = SmallScenario();
  const auto launches = [&](int lanes) {
    const int64_t before = gpu::CountEmulated().launches;
    EXPECT_OK(OnDevice(scenario, lanes, 1, fmt::format("{}.sqlite", lanes)).status);
    return gpu::CountEmulated().launches - before;
  };
  EXPECT_LT(launches(64), launches(1) * 6 / 10);
}

TEST_F(GpuSimulatorTest, AnyLanesAndWorkers_SameBits) { ExpectAnyLanes(UnlikeScenario()); }

TEST_F(GpuSimulatorTest, ClientsThatKeepState_SameBits) {
  Scenario scenario = UnlikeScenario();
  scenario.algorithm.name = "scaffold";
  ExpectAnyLanes(scenario);
}

// Folded on the device as they would be decoded.
TEST_F(GpuSimulatorTest, SixteenBitUpdates_SameBits) {
  Scenario scenario = UnlikeScenario();
  scenario.update.codec = "f16";
  ExpectAnyLanes(scenario);
}

// Clipped there too, also the one that is trained by itself.
TEST_F(GpuSimulatorTest, ClippedUpdates_SameBits) {
  Scenario scenario = UnlikeScenario();
  scenario.update.codec = "bf16";
  scenario.server.weights = "uniform";
  scenario.privacy.clip = 0.1;
  ExpectAnyLanes(scenario);
}

// Through codecs that draw, sort, rotate, and with noise.
TEST_F(GpuSimulatorTest, EncodedUpdates_SameBits) {
  for (const char* codec : {"int8", "elias7", "random_k", "eden2"}) {
    SCOPED_TRACE(codec);
    Scenario scenario = UnlikeScenario();
    scenario.run.name = codec;
    scenario.update.codec = codec;
    scenario.update.settings["fraction"] = 0.3;
    ExpectAnyLanes(scenario);
  }
}

TEST_F(GpuSimulatorTest, SeededNoise_SameBits) {
  Scenario scenario = UnlikeScenario();
  scenario.update.codec = "int4";
  scenario.server.weights = "uniform";
  scenario.privacy = {.clip = 1, .noise = 0.001, .noise_source = "seeded"};
  ExpectAnyLanes(scenario);
}

// Each is brought to the host: its weight follows from a loss.
TEST_F(GpuSimulatorTest, UpdatesThatTheHostWeighs_SameBits) {
  Scenario scenario = UnlikeScenario();
  scenario.algorithm = {.name = "term", .settings = {{"t", 0.5}}};
  ExpectAnyLanes(scenario);
}

// Beside the host, which agrees: the same bits as without.
TEST_F(GpuSimulatorTest, CheckedDevice_SameBits) {
  const Scenario scenario = UnlikeScenario();
  device_ = {.device = gpu_, .check = true};
  const Trace checked = Simulate(scenario, 1, "checked.sqlite");
  ASSERT_OK(checked.status);
  EXPECT_EQ(checked.digests, OnDevice(scenario, 64, 1, "device.sqlite").digests);
}

// What a codec left out is kept with its client, who is trained beside others all the same.
TEST_F(GpuSimulatorTest, ErrorFeedback_SameBits) {
  for (const char* codec : {"top_k", "sign"}) {
    SCOPED_TRACE(codec);
    Scenario scenario = UnlikeScenario();
    scenario.run.name = codec;
    scenario.update.codec = codec;
    scenario.update.settings["fraction"] = 0.05;
    ExpectAnyLanes(scenario);
  }
}

// The host encodes what is checked, each with what its own client has kept.
TEST_F(GpuSimulatorTest, ErrorFeedbackOfACheckedDevice_SameBits) {
  Scenario scenario = UnlikeScenario();
  scenario.run.rounds = 6;
  scenario.algorithm.name = "scaffold";
  scenario.update.codec = "top_k";
  scenario.update.settings["fraction"] = 0.05;
  device_ = {.device = gpu_, .check = true};
  const Trace checked = Simulate(scenario, 1, "checked.sqlite");
  ASSERT_OK(checked.status);
  for (const int lanes : {1, 64}) {
    EXPECT_EQ(checked.digests, OnDevice(scenario, lanes, 1, fmt::format("{}.sqlite", lanes)).digests);
  }
}

TEST_F(GpuSimulatorTest, CohortWithErrorFeedback_GoesToTheDeviceAtOnce) {
  Scenario scenario = SmallScenario();
  scenario.update.codec = "sign";
  const auto launches = [&](int lanes) {
    const int64_t before = gpu::CountEmulated().launches;
    EXPECT_OK(OnDevice(scenario, lanes, 1, fmt::format("{}.sqlite", lanes)).status);
    return gpu::CountEmulated().launches - before;
  };
  EXPECT_LT(launches(64), launches(1) * 6 / 10);
}

TEST_F(GpuSimulatorTest, FederatedEvaluation_SameBits) {
  Scenario scenario = UnlikeScenario();
  scenario.evaluation.federated_every = 1;
  scenario.evaluation.federated_clients = 3;
  ExpectAnyLanes(scenario);
}

// With models of their own, which they kept.
TEST_F(GpuSimulatorTest, PersonalModels_AreMeasuredAsTheyWereKept) {
  Scenario scenario = UnlikeScenario();
  scenario.algorithm = {.name = "ditto", .settings = {{"lambda", 0.1}}};
  scenario.evaluation.federated_every = 1;
  scenario.evaluation.federated_clients = 6;
  ExpectAnyLanes(scenario);
}

// Beyond the bound on every value: refused by the device as by the host, and the run goes on with the others.
TEST_F(GpuSimulatorTest, UpdatesBeyondTheBound_AreRefusedAsOnTheHost) {
  Scenario scenario = UnlikeScenario();
  scenario.client.optimizer.learning_rate = 3e4;
  const Trace host = Simulate(scenario, 1, "host.sqlite"), device = OnDevice(scenario, 64, 1, "device.sqlite");
  EXPECT_FALSE(host.status.ok());
  EXPECT_EQ(device.status.code(), host.status.code());
}

// A trace tells them apart as the history does: what could not be done has failed, and what was done and not taken is
// refused.
TEST_F(GpuSimulatorTest, TracedGroup_TasksThatFailAreNotSaidToBeRefused) {
  Scenario scenario = UnlikeScenario();
  std::vector<std::string> records = DigitRecords(205);
  records[100] = DigitExample(std::string(784, 'x'), 42);
  scenario.data.train = WriteRecords("bad.tfrecord", records);
  scenario.client.optimizer.learning_rate = 2e3;  // takes some updates beyond the bound
  OutcomesOfGroups tracer;
  SimulationOptions options;
  options.scenario = scenario;
  options.db_path = Path("traced.sqlite");
  options.workers = 1;
  options.device = {gpu_, 64};
  options.instruments.tracer = &tracer;
  ASSERT_OK_AND_ASSIGN(const auto simulation, Simulation::Create(std::move(options)));
  ASSERT_OK(simulation->Run());
  const auto outcomes = tracer.outcomes();
  const auto history = *History::Open(Path("traced.sqlite"), History::Access::kReadOnly);
  const auto rows = history->ClientRounds(history->ResolveRun("latest")->run_id);
  ASSERT_OK(rows);
  std::map<std::string, int> seen;
  for (const ClientRoundRow& row : *rows) {
    const auto traced = outcomes.find(row.task_id);
    if (traced == outcomes.end()) continue;  // the first one of the run, by itself
    EXPECT_EQ(traced->second, row.status == "folded" ? "accepted" : row.status + ": " + row.error) << row.task_id;
    ++seen[row.status];
  }
  EXPECT_GT(seen["folded"], 0);
  EXPECT_GT(seen["failed"], 0);
  EXPECT_GT(seen["refused"], 0);
}

TEST_F(GpuSimulatorTest, RunThatIsResumed_KeepsToOneModelOfGpu) {
  Scenario scenario = UnlikeScenario();
  const Trace whole = OnDevice(scenario, 64, 1, "whole.sqlite");
  ASSERT_OK(whole.status);
  scenario.run.rounds = 2;
  ASSERT_OK(OnDevice(scenario, 64, 1, "run.sqlite").status);
  scenario.run.rounds = 3;
  gpu::SetEmulatedSettings({.of_another_model = 0});
  ASSERT_OK_AND_ASSIGN(const auto another, GpuDevice::Open(gpu::EmulatedBackend(), 0));
  gpu::SetEmulatedSettings({});
  device_ = {another, 64};
  EXPECT_THAT(Simulate(scenario, 1, "run.sqlite", "latest").status,
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("of its 2 rounds that clients are trained on 'Emulated device', and now clients are "
                                 "trained on 'Another emulated device'")));
  device_ = {};
  EXPECT_THAT(Simulate(scenario, 1, "run.sqlite", "latest").status,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("and now clients are trained on the host")));
  device_ = {gpu_, 64};
  const Trace resumed = Simulate(scenario, 1, "run.sqlite", "latest");
  ASSERT_OK(resumed.status);
  EXPECT_EQ(resumed.final_digest, whole.final_digest);
}

TEST_F(GpuSimulatorTest, RunOfTheHost_IsNotGoneOnWithOnADevice) {
  Scenario scenario = UnlikeScenario();
  scenario.run.rounds = 1;
  ASSERT_OK(Simulate(scenario, 1, "run.sqlite").status);
  scenario.run.rounds = 2;
  device_ = {gpu_, 64};
  EXPECT_THAT(Simulate(scenario, 1, "run.sqlite", "latest").status,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("trained on the host, and now clients")));
}

// Batches that a graph of dataset ops makes are the host's.
TEST_F(GpuSimulatorTest, PlanThatTheDeviceCannotTrain_IsRefusedOrTrainedOnTheHost) {
  Graph graph;
  Scope scope(graph);
  const auto elements = [](bool batched) {
    return AttrMap{{"output_types", std::vector{DType::kFloat32, DType::kInt64}},
                   {"output_shapes", batched ? std::vector{Shape{kUnknownDim, 28, 28, 1}, Shape{kUnknownDim}}
                                             : std::vector{Shape{28, 28, 1}, Shape{}}}};
  };
  AttrMap bound = elements(false);
  bound["name"] = std::string("train");
  const Output examples = scope.Op("BoundDataset", {}, std::move(bound), "examples");
  scope.Op("BatchDatasetV2",
           {examples, scope.Const(Tensor::Scalar<int64_t>(7)), scope.Const(Tensor::Scalar<bool>(false))},
           elements(true), "batches");
  ASSERT_OK(scope.status());
  Scenario scenario = UnlikeScenario();
  scenario.run.rounds = 1;
  scenario.client.input_graph = Write("input.pb", SerializeGraph(graph));
  device_ = {gpu_, 4};
  EXPECT_THAT(Simulate(scenario, 1, "refused.sqlite").status,
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("which only the host runs")));
  EXPECT_THAT(notes_, IsEmpty());
  soft_placement_ = true;
  const Trace soft = Simulate(scenario, 1, "soft.sqlite");
  ASSERT_OK(soft.status);
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("clients are trained on the host: plan 'small' has an input graph")));
  device_ = {};
  EXPECT_EQ(Simulate(scenario, 1, "host.sqlite").final_digest, soft.final_digest);
}

}  // namespace
}  // namespace rivulet
