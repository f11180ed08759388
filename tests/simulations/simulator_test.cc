#include "simulations/simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <random>
#include <thread>

#include "client/agent.h"
#include "client/site.h"
#include "coordinator/history/database.h"
#include "coordinator/history/history.h"
#include "engine/data/tfrecord.h"
#include "engine/graphdef/graph_def.h"
#include "engine/presets/presets.h"
#include "federated/states/state_blob.h"
#include "federated/states/state_store.h"
#include "setup/run_setup.h"
#include "simulations/replay.h"
#include "simulations/shared_data.h"
#include "tests/testing/counting_algorithm.h"
#include "tests/testing/memory_dataset.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using testing::DigitExample;
using testing::DigitRecords;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// What a run did, as its coordinator told it.
struct Trace {
  std::vector<std::string> digests;  // by committed round
  std::vector<std::map<std::string, double>> central;
  std::vector<std::string> offers, folds, ends;  // actions by kind; folds sorted within what lies between two ends
  Status status;
  std::string final_digest;
};

// Collects a Trace; thread-safe, because observers are called from the coordinator's threads.
class Recorder {
 public:
  CoordinatorObserver Observer() {
    CoordinatorObserver observer;
    observer.on_round = [this](const RoundReport& report) {
      MutexLock lock(mutex_);
      trace_.digests.push_back(fmt::format("{} {}", report.round, report.model_digest.Hex()));
      trace_.central.push_back(report.central);
      if (on_round_) on_round_(report);
    };
    observer.on_action = [this](const std::string& action) {
      MutexLock lock(mutex_);
      if (action.starts_with("offer ")) trace_.offers.push_back(action);
      if (action.starts_with("fold ")) folds_.push_back(action);
      if (action.starts_with("commit") || action.starts_with("abandon")) {
        std::sort(folds_.begin(), folds_.end());  // the order of arrival is nobody's business
        trace_.folds.insert(trace_.folds.end(), folds_.begin(), folds_.end());
        folds_.clear();
        trace_.ends.push_back(action);
      }
    };
    return observer;
  }
  Trace trace() {
    MutexLock lock(mutex_);
    return trace_;
  }
  std::function<void(const RoundReport&)> on_round_;

 private:
  Mutex mutex_;
  Trace trace_;
  std::vector<std::string> folds_;
};

class SimulatorTest : public testing::FolderTest {
 protected:
  std::string WriteRecords(const std::string& name, const std::vector<std::string>& records) {
    auto writer = RecordWriter::Create(FileSystem::Default(), Path(name));
    EXPECT_OK(writer);
    for (const std::string& record : records) EXPECT_OK((*writer)->Append(record));
    EXPECT_OK((*writer)->Finish());
    EXPECT_OK((*writer)->Publish());
    return Path(name);
  }

  Scenario SmallScenario() {
    Scenario scenario;
    scenario.run.name = "small";
    scenario.run.rounds = 5;
    scenario.run.seed = 11;
    scenario.model.preset = "logistic_regression";
    scenario.data.train = WriteRecords("train.tfrecord", DigitRecords(205));
    scenario.data.test = WriteRecords("test.tfrecord", DigitRecords(53, 9));
    scenario.data.partition.clients = 12;
    scenario.client.batch_size = 7;
    scenario.client.optimizer.learning_rate = 0.1;
    scenario.server.clients_per_round = 4;
    scenario.evaluation.every = 2;
    scenario.evaluation.batch_size = 16;
    return scenario;
  }

  Trace Simulate(const Scenario& scenario, int workers, const std::string& db, const std::string& resume = "",
                 int64_t stop_after = 0) {
    Recorder recorder;
    std::atomic<Simulation*> running = nullptr;
    recorder.on_round_ = [&](const RoundReport& report) {
      if (stop_after > 0 && report.round == stop_after) running.load()->Stop();
    };
    SimulationOptions options;
    options.scenario = scenario;
    options.db_path = Path(db);
    options.workers = workers;
    options.resume = resume;
    options.observer = recorder.Observer();
    auto simulation = Simulation::Create(std::move(options));
    Trace trace;
    if (!simulation.ok()) {
      trace.status = simulation.status();
      return trace;
    }
    running = simulation->get();
    const StatusOr<SimulationResult> result = (*simulation)->Run();
    trace = recorder.trace();
    trace.status = result.status();
    if (result.ok()) trace.final_digest = result->model->ComputeDigest().Hex();
    return trace;
  }

  // The same run by clients that are agents in threads, each with its own name and share, started in a shuffled order.
  Trace Deploy(const Scenario& scenario, const std::string& db) {
    Trace trace;
    trace.status = [&]() -> Status {
      RunSetup setup(scenario, {.evaluation_threads = 1});
      RIVULET_ASSIGN_OR_RETURN(const auto evaluator, setup.evaluator());
      RIVULET_ASSIGN_OR_RETURN(const auto train, setup.training_data());
      RIVULET_ASSIGN_OR_RETURN(const auto shares, setup.shares());
      Recorder recorder;
      CoordinatorOptions options;
      options.scenario = scenario;
      RIVULET_ASSIGN_OR_RETURN(options.plan, setup.plan());
      options.db_path = Path(db);
      options.evaluator = evaluator.get();
      options.observer = recorder.Observer();
      RIVULET_ASSIGN_OR_RETURN(const auto coordinator, Coordinator::Create(std::move(options)));
      std::vector<int64_t> order(static_cast<size_t>(shares->size()));
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), std::mt19937(5));
      std::vector<std::thread> threads;
      std::vector<Status> ends(order.size());
      for (size_t i = 0; i < order.size(); ++i) {
        threads.emplace_back([&, i] {
          AgentOptions agent;
          agent.client_id = shares->NameAt(order[i]);
          agent.data.dataset = train;
          agent.data.indices = shares->ExamplesOf(order[i]);
          agent.states = NewStateStore(FileSystem::Default(), Path(db + ".clients"), false);
          // What waits here is answered within microseconds; the hint of a deployed coordinator is for networks.
          agent.sleep = [](int64_t) { std::this_thread::yield(); };
          ends[i] = Agent(*coordinator, std::move(agent)).Run();
        });
      }
      const Status status = coordinator->Wait();
      for (std::thread& thread : threads) thread.join();
      for (const Status& end : ends) EXPECT_OK(end);
      trace = recorder.trace();
      trace.final_digest = coordinator->model()->ComputeDigest().Hex();
      return status;
    }();
    return trace;
  }
};

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

// A limit that whole runs show, however they are run: the proximal term of weight 0 is no term.
TEST_F(SimulatorTest, FedProxWithMuZero_HasTheDigestsOfFedAvg) {
  Scenario scenario = SmallScenario();
  const Trace average = Simulate(scenario, 2, "average.sqlite");
  scenario.algorithm.name = "fedprox";
  scenario.algorithm.settings["mu"] = 0.0;
  EXPECT_EQ(Simulate(scenario, 2, "zero.sqlite").digests, average.digests);
  EXPECT_EQ(Deploy(scenario, "deployed.sqlite").digests, average.digests);
  scenario.algorithm.settings["mu"] = 1.0;
  const Trace pulled = Simulate(scenario, 2, "pulled.sqlite");
  ASSERT_OK(pulled.status);
  EXPECT_NE(pulled.final_digest, average.final_digest);
}

// A coordinator of another process, as far as a site can tell.
class Elsewhere : public CoordinatorApi {
 public:
  explicit Elsewhere(CoordinatorApi& api) : api_(api) {}
  StatusOr<PollReply> Poll(const PollRequest& request) override { return api_.Poll(request); }
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller& caller, const BlobId& blob, int64_t offset) override {
    return api_.Fetch(caller, blob, offset);
  }
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override {
    return api_.Submit(caller, submission);
  }
  Status Fail(const Caller& caller, const TaskFailure& failure) override { return api_.Fail(caller, failure); }

 private:
  CoordinatorApi& api_;
};

// What a client kept is told by how often its updates were folded, whoever trained it, however often the run was
// killed: no fold is forgotten, and none counts that is in no version.
class CountingTest : public SimulatorTest {
 protected:
  Scenario CountingScenario() {
    Scenario scenario = SmallScenario();
    scenario.run.rounds = 8;
    scenario.algorithm.name = "test_counting";
    scenario.evaluation.every = 0;
    return scenario;
  }

  // In the store beside the history, or in `states`.
  void ExpectCounts(const std::string& db, std::string states = "") {
    if (states.empty()) states = Path(db) + ".models";
    ASSERT_OK_AND_ASSIGN(const auto history, History::Open(Path(db), History::Access::kReadOnly));
    ASSERT_OK_AND_ASSIGN(const RunRow run, history->ResolveRun("latest"));
    EXPECT_EQ(run.status, "finished");
    std::map<std::string, int> folds;
    ASSERT_OK_AND_ASSIGN(const auto rows, history->ClientRounds(run.run_id));
    for (const ClientRoundRow& row : rows) folds[row.client_id] += row.status == "folded";
    ASSERT_OK_AND_ASSIGN(const auto newest, history->NewestFolded(run.run_id));
    EXPECT_EQ(newest.size(), folds.size());
    const auto store = NewStateStore(FileSystem::Default(), states, false);
    for (const TaskId& task : newest) {
      const std::string client = TaskNameOf(task, run.run_id)->client_id;
      ASSERT_OK_AND_ASSIGN(const StateBlob blob, store->Read(run.run_id, client, task));
      std::vector<float> counts(7850 + 100);
      counts.resize((blob.size() - testing::kCountOverhead) / sizeof(float));
      ASSERT_OK(ReadState(blob, std::vector<NamedState>{{"n", counts}}));
      EXPECT_EQ(counts[0], static_cast<float>(folds.at(client))) << client;
    }
  }

  // Kills the run three times under each run.durability; `check` looks at what it comes to.
  void ExpectSameWhenKilled(Scenario scenario, const std::function<void(const std::string& db)>& check) {
    const Trace whole = Simulate(scenario, 2, "whole.sqlite");
    ASSERT_OK(whole.status);
    for (const std::string durability : {"round", "second", "end"}) {
      SCOPED_TRACE(durability);
      scenario.run.durability = durability;
      const std::string db = fmt::format("{}.sqlite", durability);
      std::string resume;
      for (const int64_t victim : {3, 7, 8}) {
        const pid_t child = fork();
        if (child == 0) {
          Recorder recorder;
          recorder.on_round_ = [&](const RoundReport& report) {
            // So long that what came before it is written.
            if (report.round == 6 && durability == "second")
              std::this_thread::sleep_for(std::chrono::milliseconds(1200));
            if (report.round == victim) kill(getpid(), SIGKILL);
          };
          SimulationOptions options;
          options.scenario = scenario;
          options.db_path = Path(db);
          options.workers = 3;
          options.resume = resume;
          options.observer = recorder.Observer();
          const auto simulation = Simulation::Create(std::move(options));
          const Status ended = simulation.ok() ? (*simulation)->Run().status() : simulation.status();
          fmt::print(stderr, "not killed at round {}: {}\n", victim, ended.ToString());
          _exit(ended.ok() ? 0 : 1);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;  // it had finished before it heard of its rounds
        ASSERT_TRUE(WIFSIGNALED(status));
        resume = "latest";
      }
      const Trace after = Simulate(scenario, 2, db, resume);
      ASSERT_OK(after.status);
      EXPECT_EQ(after.final_digest, whole.final_digest);
      check(db);
    }
  }

  // By two sites that share no disk.
  Trace BySites(const Scenario& scenario, const std::string& db) {
    Trace trace;
    trace.status = [&]() -> Status {
      RunSetup setup(scenario, {.evaluation_threads = 1});
      RIVULET_ASSIGN_OR_RETURN(const auto shares, setup.shares());
      RIVULET_ASSIGN_OR_RETURN(const auto train, setup.training_data());
      const SharedData data(train, shares);
      Recorder recorder;
      CoordinatorOptions options;
      options.scenario = scenario;
      options.db_path = Path(db);
      options.population = shares->population();
      options.observer = recorder.Observer();
      RIVULET_ASSIGN_OR_RETURN(options.plan, setup.plan());
      RIVULET_ASSIGN_OR_RETURN(const auto coordinator, Coordinator::Create(std::move(options)));
      Elsewhere api(*coordinator);
      std::vector<std::thread> threads;
      for (int i = 0; i < 2; ++i) {
        threads.emplace_back([&, i] {
          ArtifactCache artifacts;
          StopSignal stop;
          SiteOptions site;
          site.name = fmt::format("site {}", i);
          site.most_tasks = 8;
          EXPECT_OK(Site(api, data, artifacts, stop, std::move(site)).Run());
        });
      }
      for (std::thread& thread : threads) thread.join();
      const Status status = coordinator->Wait();
      trace = recorder.trace();
      return status;
    }();
    return trace;
  }

  // Whoever trains, and whatever becomes of the process.
  void ExpectSameHoweverItIsRun(const Scenario& scenario) {
    const Trace one = Simulate(scenario, 1, "1.sqlite");
    ASSERT_OK(one.status);
    for (const int workers : {2, 3, 16}) {
      EXPECT_EQ(Simulate(scenario, workers, fmt::format("{}.sqlite", workers)).digests, one.digests) << workers;
    }
    EXPECT_EQ(Deploy(scenario, "deployed.sqlite").digests, one.digests);
    Scenario shorter = scenario;
    shorter.run.rounds = 3;  // such sites are told to wait by the clock
    EXPECT_EQ(BySites(shorter, "sites.sqlite").digests,
              std::vector<std::string>(one.digests.begin(), one.digests.begin() + 3));
    EXPECT_OK(Replay({.scenario = scenario, .db_path = Path("3.sqlite"), .run = "latest", .workers = 2}).status());
    ExpectSameWhenKilled(scenario, [](const std::string&) {});
  }

  size_t FilesIn(const std::string& folder) {
    size_t files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      files += entry.path().filename().string().find("-state-") != std::string::npos;
    }
    return files;
  }
};

TEST_F(CountingTest, AnyWorkersAndDeployed_SameBitsAndEachFoldCounted) {
  const Scenario scenario = CountingScenario();
  const Trace one = Simulate(scenario, 1, "1.sqlite");
  ASSERT_OK(one.status);
  ExpectCounts("1.sqlite");
  for (const int workers : {2, 3, 16}) {
    const std::string db = fmt::format("{}.sqlite", workers);
    EXPECT_EQ(Simulate(scenario, workers, db).digests, one.digests) << workers;
    ExpectCounts(db);
  }
  const Trace deployed = Deploy(scenario, "deployed.sqlite");
  ASSERT_OK(deployed.status);
  EXPECT_EQ(deployed.digests, one.digests);
  EXPECT_EQ(deployed.folds, one.folds);
  ExpectCounts("deployed.sqlite", Path("deployed.sqlite.clients"));
  // Of what is durable one is kept; the last of each client when the run ends is not told any more.
  EXPECT_LE(FilesIn(Path("deployed.sqlite.clients")), 12u);
  Scenario average = scenario;
  average.algorithm = {};
  EXPECT_NE(Simulate(average, 2, "average.sqlite").digests, one.digests) << "what is kept has no effect";
}

// Sites that share no disk: what a client keeps goes from the coordinator to whichever has its next task.
TEST_F(CountingTest, TwoSitesElsewhere_SameBitsAndEachFoldCounted) {
  const Scenario scenario = CountingScenario();
  const Trace simulated = Simulate(scenario, 2, "simulated.sqlite");
  ASSERT_OK(simulated.status);
  const Trace sites = BySites(scenario, "sites.sqlite");
  ASSERT_OK(sites.status);
  EXPECT_EQ(sites.digests, simulated.digests);
  ExpectCounts("sites.sqlite");
  EXPECT_LE(FilesIn(Path("sites.sqlite.models")), 12u) << "what was kept before goes";
}

TEST_F(CountingTest, KilledAndResumed_SameBitsAndEachFoldCounted) {
  ExpectSameWhenKilled(CountingScenario(), [&](const std::string& db) { ExpectCounts(db); });
}

// Whoever has lost it fails once, says so, and begins anew.
TEST_F(CountingTest, LostState_IsToldAndBeginsAnew) {
  Scenario scenario = CountingScenario();
  scenario.data.partition.clients = 4;
  scenario.server.min_reports = 1;
  const Trace before = Simulate(scenario, 2, "a.sqlite", "", 4);
  EXPECT_THAT(before.status, StatusIs(absl::StatusCode::kCancelled));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(Path("a.sqlite.models"))) {
    const std::string newest = fmt::format("-r{}-a1-state-", before.digests.size());
    if (entry.path().filename().string().find(newest) == std::string::npos) continue;
    std::filesystem::remove(entry.path());
    break;
  }
  ASSERT_OK(Simulate(scenario, 2, "a.sqlite", "latest").status);
  ASSERT_OK_AND_ASSIGN(const auto history, History::Open(Path("a.sqlite"), History::Access::kReadOnly));
  ASSERT_OK_AND_ASSIGN(const auto rows, history->ClientRounds((*history->ResolveRun("latest")).run_id));
  int64_t failed = 0;
  std::string loser;
  int64_t lost_at = 0;
  for (const ClientRoundRow& row : rows) {
    if (row.status != "failed") continue;
    ++failed;
    loser = row.client_id;
    lost_at = row.round;
    EXPECT_THAT(row.error, HasSubstr("is not there; it begins anew"));
  }
  EXPECT_EQ(failed, 1);
  const bool again = std::ranges::any_of(rows, [&](const ClientRoundRow& row) {
    return row.client_id == loser && row.round > lost_at && row.status == "folded";
  });
  EXPECT_TRUE(again);
}

// Three models in one loss, of which two weigh nothing.
TEST_F(SimulatorTest, MoonWithMuZero_HasTheDigestsOfFedAvg) {
  Scenario scenario = SmallScenario();
  scenario.evaluation.every = 0;
  scenario.run.rounds = 3;
  for (const char* preset : {"mlp", "mnist_cnn"}) {
    for (const char* kernels : {"native", "portable"}) {
      SCOPED_TRACE(fmt::format("{} {}", preset, kernels));
      const std::string name = fmt::format("{}-{}-", preset, kernels);
      scenario.model.preset = preset;
      scenario.run.kernels = kernels;
      scenario.algorithm = {};
      const Trace average = Simulate(scenario, 2, name + "average.sqlite");
      ASSERT_OK(average.status);
      scenario.algorithm.name = "moon";
      scenario.algorithm.settings["mu"] = 0.0;
      EXPECT_EQ(Simulate(scenario, 2, name + "zero.sqlite").digests, average.digests);
      EXPECT_EQ(Deploy(scenario, name + "deployed.sqlite").digests, average.digests);
    }
  }
}

TEST_F(CountingTest, Moon_AnyWorkersDeployedAndKilled_SameBits) {
  Scenario scenario = CountingScenario();
  scenario.model.preset = "mlp";
  scenario.algorithm = {};
  const Trace average = Simulate(scenario, 2, "average.sqlite");
  scenario.algorithm.name = "moon";
  scenario.algorithm.settings = {{"mu", 5.0}, {"temperature", 0.5}};
  const Trace one = Simulate(scenario, 1, "1.sqlite");
  ASSERT_OK(one.status);
  EXPECT_NE(one.digests, average.digests);
  EXPECT_EQ(Simulate(scenario, 3, "3.sqlite").digests, one.digests);
  EXPECT_EQ(Deploy(scenario, "deployed.sqlite").digests, one.digests);
  ExpectSameWhenKilled(scenario, [](const std::string&) {});
}

// What a version sends beside its model is that version's, whoever asks for it and whenever.
TEST_F(CountingTest, Scaffold_HoweverItIsRun_SameBits) {
  Scenario scenario = CountingScenario();
  scenario.algorithm = {.name = "scaffold"};
  ExpectSameHoweverItIsRun(scenario);
}

TEST_F(CountingTest, Ditto_HoweverItIsRun_SameBitsAndFedAvgs) {
  Scenario scenario = CountingScenario();
  scenario.algorithm = {};
  const Trace average = Simulate(scenario, 2, "average.sqlite");
  scenario.algorithm = {.name = "ditto", .settings = {{"lambda", 0.1}}};
  EXPECT_EQ(Simulate(scenario, 2, "ditto.sqlite").digests, average.digests);
  ExpectSameHoweverItIsRun(scenario);
}

// FedPer (Arivazhagan et al. 2019, arXiv:1912.00818): the last layer is everybody's own.
TEST_F(CountingTest, PersonalLayers_HoweverItIsRun_SameBits) {
  Scenario scenario = CountingScenario();
  scenario.algorithm = {};
  scenario.model.preset = "mlp";
  const Trace average = Simulate(scenario, 2, "average.sqlite");
  ASSERT_OK(average.status);
  scenario.model.personal = {"dense3/*"};
  ExpectSameHoweverItIsRun(scenario);
  EXPECT_NE(Simulate(scenario, 2, "personal.sqlite").digests, average.digests);
}

TEST_F(SimulatorTest, ScaffoldsFirstRound_IsThatOfUniformFedAvg) {
  Scenario scenario = SmallScenario();
  scenario.server.weights = "uniform";
  const Trace average = Simulate(scenario, 2, "average.sqlite");
  ASSERT_OK(average.status);
  scenario.algorithm.name = "scaffold";
  const Trace scaffold = Simulate(scenario, 2, "scaffold.sqlite");
  ASSERT_OK(scaffold.status);
  EXPECT_EQ(scaffold.digests[0], average.digests[0]);
  EXPECT_NE(scaffold.digests[1], average.digests[1]);
}

// The rule that keeps every update, however its run is run: what it comes to without a trim, a mean comes to as well.
TEST_F(SimulatorTest, TrimmedMeanWithoutTrim_HasTheDigestsOfTheUniformMean) {
  Scenario scenario = SmallScenario();
  scenario.server.weights = "uniform";
  const Trace mean = Simulate(scenario, 2, "mean.sqlite");
  ASSERT_OK(mean.status);
  scenario.server.weights = "examples";
  EXPECT_NE(Simulate(scenario, 2, "weighted.sqlite").final_digest, mean.final_digest);
  scenario.algorithm.name = "trimmed_mean";
  scenario.algorithm.settings["trim"] = 0.0;
  for (const int workers : {1, 3}) {
    EXPECT_EQ(Simulate(scenario, workers, fmt::format("trim-{}.sqlite", workers)).digests, mean.digests);
  }
  EXPECT_EQ(Deploy(scenario, "deployed.sqlite").digests, mean.digests);
  scenario.algorithm.settings["trim"] = 0.34;
  const Trace trimmed = Simulate(scenario, 2, "trimmed.sqlite");
  ASSERT_OK(trimmed.status);
  EXPECT_NE(trimmed.final_digest, mean.final_digest);
  EXPECT_EQ(Deploy(scenario, "deployed-trimmed.sqlite").digests, trimmed.digests);
}

TEST_F(CountingTest, DpFedAvg_InItsLimitAndWithNoise_IsTheSameHoweverItIsRun) {
  Scenario scenario = CountingScenario();
  scenario.algorithm = {};
  scenario.server.weights = "uniform";
  const Trace uniform = Simulate(scenario, 2, "uniform.sqlite");
  ASSERT_OK(uniform.status);
  scenario.algorithm.name = "dp_fedavg";
  scenario.algorithm.settings = {{"noise_multiplier", 0.0}};
  EXPECT_EQ(Simulate(scenario, 2, "limit.sqlite").digests, uniform.digests);
  EXPECT_EQ(Deploy(scenario, "deployed-limit.sqlite").digests, uniform.digests);
  scenario.privacy.clip = 0.1;
  const Trace clipped = Simulate(scenario, 2, "clipped.sqlite");
  EXPECT_NE(clipped.final_digest, uniform.final_digest);
  scenario.algorithm.settings = {{"noise_multiplier", 0.5}, {"noise_source", "seeded"}};
  const Trace one = Simulate(scenario, 1, "1.sqlite");
  ASSERT_OK(one.status);
  EXPECT_NE(one.final_digest, clipped.final_digest);
  EXPECT_EQ(Simulate(scenario, 3, "3.sqlite").digests, one.digests);
  EXPECT_EQ(Deploy(scenario, "deployed.sqlite").digests, one.digests);
  EXPECT_OK(Replay({.scenario = scenario, .db_path = Path("1.sqlite"), .run = "latest", .workers = 2}).status());
  ExpectSameWhenKilled(scenario, [](const std::string&) {});
}

// Noise of the system's generator is nobody's to draw again.
TEST_F(SimulatorTest, SecureNoise_IsNeverTheSameAndCannotBeReplayed) {
  Scenario scenario = SmallScenario();
  scenario.run.rounds = 2;
  scenario.privacy.clip = 0.1;
  scenario.algorithm.name = "dp_fedavg";
  const Trace one = Simulate(scenario, 2, "a.sqlite");
  ASSERT_OK(one.status);
  EXPECT_NE(Simulate(scenario, 2, "b.sqlite").digests, one.digests);
  EXPECT_THAT(Replay({.scenario = scenario, .db_path = Path("a.sqlite"), .run = "latest", .workers = 2}).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("cannot be replayed: its noise came from the system's generator")));
}

// Whose examples weigh nothing may have any number of them.
TEST_F(SimulatorTest, ClientHeavierThanMaxWeight_MayTakePartWhereAllCountTheSame) {
  Scenario scenario = SmallScenario();
  scenario.server.max_weight = 17;
  scenario.server.weights = "uniform";
  EXPECT_OK(Simulate(scenario, 2, "a.sqlite").status);
}

// What an update goes through on its way is the client's, wherever that is: clipped, with noise of the seed, rounded.
TEST_F(SimulatorTest, ClippedNoisyAndEncoded_DeployedAsSimulated) {
  Scenario scenario = SmallScenario();
  const Trace plain = Simulate(scenario, 2, "plain.sqlite");
  scenario.update.codec = "bf16";
  const Trace rounded = Simulate(scenario, 2, "rounded.sqlite");
  ASSERT_OK(rounded.status);
  EXPECT_NE(rounded.final_digest, plain.final_digest);
  EXPECT_EQ(Deploy(scenario, "deployed-rounded.sqlite").digests, rounded.digests);
  scenario.privacy.clip = 0.1;
  scenario.privacy.noise = 0.01;
  scenario.privacy.noise_source = "seeded";
  for (const char* codec : {"f32", "bf16", "int8", "random_k"}) {
    scenario.update.codec = codec;
    const Trace one = Simulate(scenario, 1, fmt::format("1-{}.sqlite", codec));
    ASSERT_OK(one.status);
    EXPECT_NE(one.final_digest, rounded.final_digest);
    EXPECT_EQ(Simulate(scenario, 3, fmt::format("3-{}.sqlite", codec)).digests, one.digests);
    EXPECT_EQ(Deploy(scenario, fmt::format("deployed-{}.sqlite", codec)).digests, one.digests);
  }
}

// What a codec leaves out is kept beside what else is: of the counting client two vectors.
TEST_F(CountingTest, TopKWithErrorFeedback_IsTheSameHoweverItIsRun) {
  Scenario scenario = CountingScenario();
  const Trace plain = Simulate(scenario, 2, "plain.sqlite");
  scenario.update.codec = "top_k";
  scenario.update.fraction = 1;
  EXPECT_EQ(Simulate(scenario, 2, "limit.sqlite").digests, plain.digests);
  EXPECT_EQ(Deploy(scenario, "deployed-limit.sqlite").digests, plain.digests);
  scenario.update.fraction = 0.02;
  scenario.update.error_feedback = false;
  const Trace lossy = Simulate(scenario, 2, "lossy.sqlite");
  ASSERT_OK(lossy.status);
  scenario.update.error_feedback = true;
  const Trace one = Simulate(scenario, 1, "1.sqlite");
  ASSERT_OK(one.status);
  EXPECT_NE(one.final_digest, plain.final_digest);
  EXPECT_NE(one.final_digest, lossy.final_digest) << "what was left out is lost";
  for (const int workers : {2, 3, 16}) {
    EXPECT_EQ(Simulate(scenario, workers, fmt::format("{}.sqlite", workers)).digests, one.digests) << workers;
  }
  EXPECT_EQ(Deploy(scenario, "deployed.sqlite").digests, one.digests);
  EXPECT_EQ(BySites(scenario, "sites.sqlite").digests, one.digests);
  EXPECT_OK(Replay({.scenario = scenario, .db_path = Path("1.sqlite"), .run = "latest", .workers = 2}).status());
  ExpectSameWhenKilled(scenario, [](const std::string&) {});
}

TEST_F(SimulatorTest, TopK_LearnsFromTheFewValuesThatItSends) {
  Scenario scenario = SmallScenario();
  scenario.run.rounds = 12;
  scenario.update.codec = "top_k";
  scenario.update.fraction = 0.02;
  const Trace trace = Simulate(scenario, 2, "a.sqlite");
  ASSERT_OK(trace.status);
  EXPECT_GT(trace.central.back().at("test/accuracy"), 0.8);
}

// What is recorded of a run gives its versions again; whoever changes what is recorded is found out.
TEST_F(CountingTest, Replayed_SimulatedOrDeployed_ComesOutAsRecorded) {
  Scenario scenario = CountingScenario();
  scenario.run.rounds = 4;
  ASSERT_OK(Simulate(scenario, 2, "simulated.sqlite").status);
  const Trace deployed = Deploy(scenario, "deployed.sqlite");
  ASSERT_OK(deployed.status);
  for (const char* db : {"simulated.sqlite", "deployed.sqlite"}) {
    for (const int workers : {1, 3}) {
      ReplayOptions options{.scenario = scenario, .db_path = Path(db), .run = "latest", .workers = workers};
      std::vector<int64_t> versions;
      options.on_version = [&](int64_t version, int64_t) { versions.push_back(version); };
      ASSERT_OK_AND_ASSIGN(const ReplayResult result, Replay(options));
      EXPECT_EQ(versions, (std::vector<int64_t>{1, 2, 3, 4}));
      EXPECT_EQ(result.tasks, 16);
      EXPECT_EQ(result.model_digest.Hex(), deployed.final_digest);
    }
  }
}

// Tasks that outlive versions: more under way than make one, of clients of whom some take longer.
Scenario Asynchronous(Scenario scenario) {
  scenario.run.rounds = 8;
  scenario.algorithm.name = "fedbuff";
  scenario.data.partition.kind = "dirichlet";
  scenario.server.clients_per_round = 3;
  scenario.server.in_flight = 7;
  scenario.server.max_staleness = 3;
  scenario.evaluation.every = 0;
  return scenario;
}

// Of a finished run: each folded task is in one version, none is later than allowed. How many were late.
int64_t CountLate(const std::string& db, const Scenario& scenario) {
  const auto history = History::Open(db, History::Access::kReadOnly);
  EXPECT_OK(history);
  const auto run = (*history)->ResolveRun("latest");
  EXPECT_OK(run);
  EXPECT_EQ(run->status, "finished");
  const auto rows = (*history)->ClientRounds(run->run_id);
  EXPECT_OK(rows);
  std::map<int64_t, int64_t> updates;
  int64_t late = 0;
  for (const ClientRoundRow& row : *rows) {
    if (row.status != "folded") continue;
    EXPECT_EQ(row.committed_round, row.round);
    EXPECT_EQ(row.staleness, row.round - 1 - row.base_round);
    EXPECT_GE(row.staleness, 0);
    EXPECT_LE(row.staleness, scenario.server.max_staleness);
    late += row.staleness > 0;
    ++updates[row.round];
  }
  EXPECT_EQ(std::ssize(updates), scenario.run.rounds);
  for (const auto& [round, count] : updates) EXPECT_EQ(count, scenario.server.clients_per_round) << round;
  return late;
}

TEST_F(SimulatorTest, Asynchronous_AnyNumberOfWorkers_SameBits) {
  Scenario scenario = Asynchronous(SmallScenario());
  const Trace one = Simulate(scenario, 1, "1.sqlite");
  ASSERT_OK(one.status);
  EXPECT_GT(CountLate(Path("1.sqlite"), scenario), 5);
  for (const int workers : {2, 3, 16}) {
    const std::string db = fmt::format("{}.sqlite", workers);
    const Trace many = Simulate(scenario, workers, db);
    ASSERT_OK(many.status);
    EXPECT_EQ(many.digests, one.digests) << workers;
    EXPECT_EQ(many.offers, one.offers) << workers;
    EXPECT_EQ(many.folds, one.folds) << workers;
    EXPECT_EQ(many.ends, one.ends) << workers;
    EXPECT_OK(Replay({.scenario = scenario, .db_path = Path(db), .run = "latest", .workers = 2}).status());
  }
  // Who measures changes nothing, and is kept the version that is measured.
  Scenario measured = scenario;
  measured.evaluation.federated_every = 1;
  measured.evaluation.federated_clients = 2;
  EXPECT_EQ(Simulate(measured, 2, "measured.sqlite").digests, one.digests);
  // Each key of the dial has its effect.
  scenario.server.staleness_exponent = 0;
  const Trace flat = Simulate(scenario, 2, "flat.sqlite");
  EXPECT_EQ(flat.folds, one.folds);
  EXPECT_NE(flat.final_digest, one.final_digest);
  scenario.server.max_staleness = 1;
  EXPECT_NE(Simulate(scenario, 2, "strict.sqlite").folds, one.folds);
  scenario.server.in_flight = 4;
  EXPECT_NE(Simulate(scenario, 2, "narrow.sqlite").folds, one.folds);
}

// Where nobody is late it is the uniform mean, however it is run.
TEST_F(SimulatorTest, FedBuffFromCommittedModels_HasTheDigestsOfTheUniformMean) {
  Scenario scenario = SmallScenario();
  scenario.server.weights = "uniform";
  const Trace mean = Simulate(scenario, 2, "mean.sqlite");
  ASSERT_OK(mean.status);
  scenario.algorithm.name = "fedbuff";
  scenario.server.base = "committed";
  scenario.server.in_flight = scenario.server.clients_per_round;
  EXPECT_EQ(Simulate(scenario, 3, "buffered.sqlite").digests, mean.digests);
  EXPECT_EQ(Deploy(scenario, "deployed.sqlite").digests, mean.digests);
}

TEST_F(CountingTest, Asynchronous_KilledWithTasksUnderWay_SameBits) {
  const Scenario scenario = Asynchronous(SmallScenario());
  ExpectSameWhenKilled(scenario, [&](const std::string& db) {
    EXPECT_GT(CountLate(Path(db), scenario), 5);
    EXPECT_OK(Replay({.scenario = scenario, .db_path = Path(db), .run = "latest", .workers = 2}).status());
  });
}

// Nobody can say beforehand what comes of it; what came of it comes out again.
TEST_F(SimulatorTest, AsynchronousDeployedRun_ReplaysToItsDigests) {
  const Scenario scenario = Asynchronous(SmallScenario());
  for (const int time : {1, 2}) {
    const std::string db = fmt::format("deployed-{}.sqlite", time);
    const Trace deployed = Deploy(scenario, db);
    ASSERT_OK(deployed.status);
    CountLate(Path(db), scenario);
    for (const int workers : {1, 3}) {
      ASSERT_OK_AND_ASSIGN(const ReplayResult result,
                           Replay({.scenario = scenario, .db_path = Path(db), .run = "latest", .workers = workers}));
      EXPECT_EQ(result.model_digest.Hex(), deployed.final_digest);
      EXPECT_EQ(result.tasks, 24);
    }
  }
}

TEST_F(SimulatorTest, ReplayOfARowThatWasChanged_NamesItsTask) {
  const Scenario scenario = SmallScenario();
  ASSERT_OK(Simulate(scenario, 2, "a.sqlite").status);
  const auto replay = [&] {
    return Replay({.scenario = scenario, .db_path = Path("a.sqlite"), .run = "latest", .workers = 2}).status();
  };
  const auto change = [&](const std::string& sql) {
    ASSERT_OK_AND_ASSIGN(const auto db, Database::Open(Path("a.sqlite"), Database::Access::kReadWrite));
    ASSERT_OK(db->Run(sql));
  };
  EXPECT_OK(replay());
  const std::string third = "attempt_key = (SELECT attempt_key FROM attempt WHERE round = 3)";
  change("UPDATE task SET examples = examples + 1 WHERE task = (SELECT min(task) FROM task WHERE " + third + ")");
  EXPECT_THAT(replay(), StatusIs(absl::StatusCode::kDataLoss,
                                 ::testing::AllOf(HasSubstr("version 3 of run 'small-"), HasSubstr("-r3-a1-client-"),
                                                  HasSubstr("its examples is "))));
  change("UPDATE task SET ordinal = 7 WHERE task = (SELECT min(task) FROM task WHERE " + third + ")");
  EXPECT_THAT(replay(), StatusIs(absl::StatusCode::kDataLoss, ::testing::AllOf(HasSubstr("version 3 of run 'small-"),
                                                                               HasSubstr("recorded tasks make"))));
  change("UPDATE model SET digest = zeroblob(32) WHERE round = 2");
  EXPECT_THAT(replay(), StatusIs(absl::StatusCode::kDataLoss,
                                 ::testing::AllOf(HasSubstr("version 2 of run 'small-"), HasSubstr(" is 000000"))));
  Scenario without = scenario;
  without.data.partition.clients = 2;
  EXPECT_THAT(Replay({.scenario = without, .db_path = Path("a.sqlite"), .run = "latest", .workers = 2}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("cannot be replayed")));
}

// "3 evaluate/accuracy 40/53", "3 client-00002 evaluate/loss 0.25": what clients have measured.
std::vector<std::string> MeasuredBy(const std::string& db, int64_t from_round = 0) {
  std::vector<std::string> lines;
  const auto history = History::Open(db, History::Access::kReadOnly);
  EXPECT_OK(history);
  for (const char* scope : {"federated", "client"}) {
    const auto rows = (*history)->Metrics((*history)->ResolveRun("latest")->run_id, scope);
    EXPECT_OK(rows);
    for (const MetricRow& row : *rows) {
      if (!row.name.starts_with("evaluate/") || row.round < from_round) continue;
      lines.push_back(fmt::format("{} {} {} {} {}/{}", row.round, row.client_id, row.name, row.value.value_or(-1),
                                  row.right.value_or(-1), row.total.value_or(-1)));
    }
  }
  return lines;
}

std::vector<std::string> OfTraining(std::vector<std::string> actions) {
  std::erase_if(actions, [](const std::string& action) { return action.find(" e") == action.find(' '); });
  return actions;
}

// A limit that whole runs show, however they are run: who measures changes no bit of what is measured, and the figures
// are those of the cohort, whoever computes them in whatever order.
TEST_F(SimulatorTest, FederatedEvaluation_ChangesNoModelAndIsTheSameHoweverItIsRun) {
  Scenario scenario = SmallScenario();
  const Trace off = Simulate(scenario, 2, "off.sqlite");
  EXPECT_THAT(MeasuredBy(Path("off.sqlite")), IsEmpty());
  scenario.evaluation.federated_every = 2;
  scenario.evaluation.federated_clients = 5;
  const Trace on = Simulate(scenario, 1, "1.sqlite");
  ASSERT_OK(on.status);
  EXPECT_EQ(on.digests, off.digests);
  EXPECT_EQ(OfTraining(on.offers), off.offers);
  const std::vector<std::string> measured = MeasuredBy(Path("1.sqlite"));
  // Of versions 2, 4 and the last: two measures, five figures of how each is spread, and both of each client.
  EXPECT_THAT(measured, SizeIs(3 * (2 * 6 + 5 * 2)));
  for (const int workers : {2, 3, 16}) {
    const std::string db = fmt::format("{}.sqlite", workers);
    EXPECT_EQ(Simulate(scenario, workers, db).digests, off.digests);
    EXPECT_EQ(MeasuredBy(Path(db)), measured) << workers;
  }
  // Clients of a network take their time: a version whose turn does not come before the next is due is left out, and
  // the last one never is.
  EXPECT_EQ(Deploy(scenario, "deployed.sqlite").digests, off.digests);
  const std::vector<std::string> deployed = MeasuredBy(Path("deployed.sqlite"));
  EXPECT_THAT(measured, ::testing::IsSupersetOf(deployed));
  EXPECT_EQ(MeasuredBy(Path("deployed.sqlite"), 5), MeasuredBy(Path("1.sqlite"), 5));
}

// All clients together hold the training set: what they measure of a version is what central evaluation of that says.
TEST_F(SimulatorTest, FederatedEvaluationByAll_IsCentralEvaluationOfTheirData) {
  Scenario scenario = SmallScenario();
  scenario.data.test = scenario.data.train;
  scenario.run.rounds = 2;
  scenario.evaluation.every = 1;
  scenario.evaluation.batch_size = 1;  // nothing is rounded but each example's loss, which is the same
  scenario.evaluation.federated_every = 1;
  scenario.evaluation.federated_clients = 12;
  ASSERT_OK(Simulate(scenario, 2, "a.sqlite").status);
  const auto history = *History::Open(Path("a.sqlite"), History::Access::kReadOnly);
  const std::string run_id = history->ResolveRun("latest")->run_id;
  std::map<std::pair<int64_t, std::string>, MetricRow> rows;
  for (const char* scope : {"central", "federated"}) {
    const auto found = history->Metrics(run_id, scope);
    ASSERT_OK(found);
    for (const MetricRow& row : *found) rows[{row.round, row.name}] = row;
  }
  for (const int64_t round : {1, 2}) {
    const MetricRow &loss = rows.at({round, "evaluate/loss"}), &accuracy = rows.at({round, "evaluate/accuracy"});
    EXPECT_NEAR(*loss.value, *rows.at({round, "test/loss"}).value, 1e-12 * *loss.value);
    EXPECT_EQ(accuracy.right, rows.at({round, "test/accuracy"}).right);
    EXPECT_EQ(accuracy.total, 205);
  }
}

// One of the clients fails at every task; in the evaluation too the next of the draw takes its place.
TEST_F(SimulatorTest, FederatedEvaluation_ReplacesWhoFails) {
  Scenario scenario = SmallScenario();
  std::vector<std::string> records = DigitRecords(205);
  records[100] = DigitExample(std::string(784, 'x'), 42);
  scenario.data.train = WriteRecords("bad.tfrecord", records);
  scenario.evaluation.federated_every = 1;
  scenario.evaluation.federated_clients = 9;
  ASSERT_OK(Simulate(scenario, 2, "a.sqlite").status);
  const auto history = *History::Open(Path("a.sqlite"), History::Access::kReadOnly);
  const auto tasks = history->ClientRounds(history->ResolveRun("latest")->run_id);
  ASSERT_OK(tasks);
  std::map<int64_t, int64_t> folded;
  int64_t failed = 0;
  for (const ClientRoundRow& task : *tasks) {
    if (task.kind != "evaluate") continue;
    EXPECT_EQ(task.base_round, task.round);
    if (task.status == "folded") ++folded[task.round];
    if (task.status == "failed") ++failed;
  }
  EXPECT_EQ(folded, (std::map<int64_t, int64_t>{{1, 9}, {2, 9}, {3, 9}, {4, 9}, {5, 9}}));
  EXPECT_GT(failed, 0);
  EXPECT_EQ(Simulate(scenario, 3, "b.sqlite").digests.size(), 5u);
  EXPECT_EQ(MeasuredBy(Path("b.sqlite")), MeasuredBy(Path("a.sqlite")));
}

TEST_F(SimulatorTest, FederatedEvaluation_StoppedAndResumed_GoesOn) {
  Scenario scenario = SmallScenario();
  scenario.run.durability = "round";
  scenario.evaluation.federated_every = 1;
  scenario.evaluation.federated_clients = 8;
  const Trace whole = Simulate(scenario, 2, "whole.sqlite");
  const Trace before = Simulate(scenario, 2, "parts.sqlite", "", 3);
  EXPECT_THAT(before.status, StatusIs(absl::StatusCode::kCancelled));
  const Trace after = Simulate(scenario, 3, "parts.sqlite", "latest");
  ASSERT_OK(after.status);
  EXPECT_EQ(after.final_digest, whole.final_digest);
  // Models of the two newest versions are there still, so that their measuring begins again where it was cut off.
  EXPECT_EQ(MeasuredBy(Path("parts.sqlite"), 3), MeasuredBy(Path("whole.sqlite"), 3));
  EXPECT_THAT(MeasuredBy(Path("whole.sqlite")), ::testing::IsSupersetOf(MeasuredBy(Path("parts.sqlite"))));

  // Switched on later: nobody was told how.
  Scenario later = SmallScenario();
  EXPECT_OK(Simulate(later, 2, "later.sqlite").status);
  later.run.rounds = 7;
  later.evaluation.federated_every = 1;
  EXPECT_THAT(Simulate(later, 2, "later.sqlite", "latest").status,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("does not say how to measure")));
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
  for (const Trace& other : {Simulate(scenario, 2, "2.sqlite"), Simulate(scenario, 16, "16.sqlite"),
                             Deploy(scenario, "deployed.sqlite")}) {
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
