// Whole runs of a few rounds in every mode, with their reports: simulated, by agents in threads, by sites without a
// shared disk, killed and resumed. Fixtures of this folder's tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/agent/agent.h"
#include "client/site/site.h"
#include "coordinator/coordinator.h"
#include "coordinator/history/history.h"
#include "engine/data/tfrecord.h"
#include "federated/states/state_blob.h"
#include "federated/states/state_store.h"
#include "setup/run_setup.h"
#include "simulations/attacks/shared_data.h"
#include "simulations/replay.h"
#include "simulations/simulator.h"
#include "tests/testing/forwarding_coordinator.h"
#include "tests/testing/memory_dataset.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {

using ::rivulet::testing::StatusIs;
using testing::DigitExample;
using testing::DigitRecords;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A run's actions, as reported by its coordinator.
struct Trace {
  std::vector<std::string> digests;  // by committed round
  std::vector<std::map<std::string, double>> central;
  std::vector<std::string> offers, folds, ends;  // actions by kind; folds are sorted between two ends
  Status status;
  std::string final_digest;
};

// Collects a Trace; thread-safe, because observers are called from the coordinator's threads.
class TraceRecorder {
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
        std::sort(folds_.begin(), folds_.end());  // the order of arrival is irrelevant
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

// A test's changes to a run by agents; null: none.
struct Deployed {
  std::function<void(CoordinatorOptions& options)> coordinator = nullptr;
  std::function<void(AgentOptions& options, int64_t client)> agent = nullptr;
  // Makes an api between a client and the coordinator; it may return null.
  std::function<std::unique_ptr<CoordinatorApi>(CoordinatorApi& api, int64_t client)> between = nullptr;
  // Runs a client in place of an agent; nullopt: runs the agent.
  std::function<std::optional<Status>(CoordinatorApi& api, const AgentOptions& options, int64_t client)> run = nullptr;
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

  // `stop_after`: stops the run after this round, or a few rounds later, but never at its end. On a busy machine the
  // stop may come too late; then the run starts again.
  Trace Simulate(const Scenario& scenario, int workers, const std::string& db, const std::string& resume = "",
                 int64_t stop_after = 0) {
    Trace trace = SimulateOnce(scenario, workers, db, resume, stop_after);
    for (int again = 0; again < 50 && stop_after > 0 && resume.empty() && trace.status.ok(); ++again) {
      for (const char* const of_it : {"", "-wal", "-shm", ".models"}) std::filesystem::remove_all(Path(db + of_it));
      trace = SimulateOnce(scenario, workers, db, resume, stop_after);
    }
    return trace;
  }

  Trace SimulateOnce(const Scenario& scenario, int workers, const std::string& db, const std::string& resume,
                     int64_t stop_after) {
    TraceRecorder recorder;
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
    options.device = device_;
    options.soft_placement = soft_placement_;
    options.note = [this](const std::string& sentence) { notes_.push_back(sentence); };
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

  TrainingDevice device_;  // for runs by Simulate
  bool soft_placement_ = false;
  std::vector<std::string> notes_;

  // The same run by agents in threads, each with a name and share of the data, started in a shuffled order.
  Trace Deploy(const Scenario& scenario, const std::string& db, const Deployed& changed = {}) {
    Trace trace;
    trace.status = [&]() -> Status {
      RunSetup setup(scenario, {.evaluation_threads = 1});
      RIVULET_ASSIGN_OR_RETURN(const auto evaluator, setup.evaluator());
      RIVULET_ASSIGN_OR_RETURN(const auto train, setup.training_data());
      RIVULET_ASSIGN_OR_RETURN(const auto shares, setup.shares());
      TraceRecorder recorder;
      CoordinatorOptions options;
      options.scenario = scenario;
      RIVULET_ASSIGN_OR_RETURN(options.plan, setup.plan());
      options.db_path = Path(db);
      options.evaluator = evaluator.get();
      options.observer = recorder.Observer();
      if (changed.coordinator) changed.coordinator(options);
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
          agent.data = {BoundData{.dataset = train, .indices = shares->ExamplesOf(order[i])}};
          agent.states = NewStateStore(FileSystem::Default(), Path(db + ".clients"), false);
          // Waits here end within microseconds; the hint of a deployed coordinator is for networks.
          agent.sleep = [](int64_t) { std::this_thread::yield(); };
          if (changed.agent) changed.agent(agent, order[i]);
          const auto between = changed.between ? changed.between(*coordinator, order[i]) : nullptr;
          CoordinatorApi& api = between != nullptr ? *between : static_cast<CoordinatorApi&>(*coordinator);
          const std::optional<Status> end = changed.run ? changed.run(api, agent, order[i]) : std::nullopt;
          ends[i] = end ? *end : Agent(api, std::move(agent)).Run();
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

// To a site, this is a coordinator in another process.
using Elsewhere = testing::ForwardingCoordinator;

// The counting algorithm's state is the number of a client's aggregated updates, regardless of worker and kills: no
// aggregation is lost, and only updates in versions count.
class CountingTest : public SimulatorTest {
 protected:
  Scenario CountingScenario() {
    Scenario scenario = SmallScenario();
    scenario.run.rounds = 8;
    scenario.algorithm.name = "test_counting";
    scenario.evaluation.every = 0;
    return scenario;
  }

  // Checks the store beside the history, or `states`. For programs with the counting algorithm.
  void ExpectCounts(const std::string& db, std::string states = "");

  // Kills the run three times for each run.durability; `check` inspects the results.
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
          TraceRecorder recorder;
          recorder.on_round_ = [&](const RoundReport& report) {
            // Long enough that earlier data is written.
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
          // Its threads end before the process does: the thread sanitizer reports threads left by `_exit` as leaked,
          // which changes the exit status.
          const Status ended = [&]() -> Status {
            RIVULET_ASSIGN_OR_RETURN(const auto simulation, Simulation::Create(std::move(options)));
            return simulation->Run().status();
          }();
          fmt::print(stderr, "not killed at round {}: {}\n", victim, ended.ToString());
          _exit(ended.ok() ? 0 : 1);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;  // finished before it received its rounds
        ASSERT_TRUE(WIFSIGNALED(status));
        resume = "latest";
      }
      const Trace after = Simulate(scenario, 2, db, resume);
      ASSERT_OK(after.status);
      EXPECT_EQ(after.final_digest, whole.final_digest);
      check(db);
    }
  }

  // By two sites without a shared disk.
  Trace BySites(const Scenario& scenario, const std::string& db) {
    Trace trace;
    trace.status = [&]() -> Status {
      RunSetup setup(scenario, {.evaluation_threads = 1});
      RIVULET_ASSIGN_OR_RETURN(const auto shares, setup.shares());
      RIVULET_ASSIGN_OR_RETURN(const auto train, setup.training_data());
      const SharedData data(train, shares);
      TraceRecorder recorder;
      CoordinatorOptions options;
      options.scenario = scenario;
      options.db_path = Path(db);
      options.population = shares->population();
      options.observer = recorder.Observer();
      // As in any simulation. A coordinator of networked clients skips an evaluation that has not started when the next
      // one is due; on a loaded machine one of the compared runs would then lack it.
      options.enforce_deadline = false;
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

  // For all workers and all interruptions of the process.
  void ExpectSameHoweverItIsRun(const Scenario& scenario) {
    const Trace one = Simulate(scenario, 1, "1.sqlite");
    ASSERT_OK(one.status);
    for (const int workers : {2, 3, 16}) {
      EXPECT_EQ(Simulate(scenario, workers, fmt::format("{}.sqlite", workers)).digests, one.digests) << workers;
    }
    EXPECT_EQ(Deploy(scenario, "deployed.sqlite").digests, one.digests);
    EXPECT_EQ(BySites(scenario, "sites.sqlite").digests, one.digests);
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

}  // namespace rivulet
