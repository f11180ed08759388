// A whole federation under virtual time: the production coordinator, aggregators and agents, on
// machines with power failures and a network with losses. A seed determines one run, to the last
// bit.
//
// These properties are checked at every answer of a server, at every death and at the end:
//
//   no task's update is accepted twice, and none is in two versions; where the coordinator keeps what it acknowledges,
//   also not by another process of it
//   data that a client was told is durable is in the history after every crash
//   a task that is trained again gives the same bytes
//   where what is acknowledged is kept and the cohort cannot change, nobody is asked again for what a coordinator or a
//   aggregator has acknowledged, as long as the version that it starts from is the same
//   each version is the aggregate of the updates named in its rows
//   memory stays within a bound
//   after the faults end, the run ends, and all live clients are told
//   where the cohort cannot change, the last model is that of an undisturbed run
#pragma once

#include <malloc.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "aggregator/aggregator.h"
#include "client/agent/agent.h"
#include "client/agent/persisted_updates.h"
#include "client/training/training_checkpoint.h"
#include "coordinator/commit/commit.h"
#include "coordinator/coordinator.h"
#include "coordinator/history/history.h"
#include "federated/aggregation/staleness.h"
#include "federated/algorithms/algorithm.h"
#include "federated/states/state_store.h"
#include "federated/updates/update_message.h"
#include "tests/simulations/ten_algorithms.h"
#include "tests/system/disk.h"
#include "tests/system/network.h"
#include "tests/system/planted_faults.h"
#include "tests/system/virtual_threads.h"
#include "tests/testing/seeded_noise.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {

// The first client's machine, or the first aggregator's, loses power at one of its durable operations, and is restarted
// afterwards.
struct Death {
  enum class Of : uint8_t { kNobody, kClient, kAggregator } of = Of::kNobody;
  int64_t operation = 0;  // from 1 on, as Disk::CutAt
};

struct StormOptions {
  uint64_t seed = 1;
  const TenthAlgorithm* algorithm = nullptr;
  bool calm = false;        // no faults and no deaths
  bool everybody = false;   // each version includes all clients, however long it takes
  int64_t aggregators = 0;  // between coordinator and clients
  int64_t clients = 0;      // 0: three to seven
  Planted planted = Planted::kNothing;
  Death death = {};  // one death in a run without other faults
};

struct StormCounts {
  int64_t faults = 0, client_deaths = 0, coordinator_deaths = 0, aggregator_deaths = 0, accepted = 0, duplicates = 0,
          refused = 0, trained = 0, again = 0, virtual_ms = 0, switches = 0, late = 0;
};

class Federation final : private Witness {
 public:
  static constexpr int64_t kMostClients = 7;
  explicit Federation(const StormOptions& options)
      : options_(options),
        chance_(options.seed * 7919 + 17),
        fleet_(options.clients > 0 ? options.clients : 3 + chance_.Below(kMostClients - 2)),
        scenario_(ScenarioOf()),
        data_(fleet_),
        disk_(
            true, [this] { Slow(); },
            options.planted == Planted::kLyingHistory   ? Disk::Lies::kOfHistories
            : options.planted == Planted::kLyingReports ? Disk::Lies::kOfReports
                                                        : Disk::Lies::kNever),
        network_(chance_, *this) {}
  ~Federation() { Tidy(); }

  void Go() {
    VirtualThreads::Begin(options_.seed);
    VirtualThreads::SetStory(fmt::format("seed {}", options_.seed));
    ASSERT_OK_AND_ASSIGN(plan_, PlanOf(scenario_, options_.planted));
    if (!options_.calm) {
      network_.weather = {.most_delay_ms = 1 + chance_.Below(400),
                          .fault_one_in = 3 + chance_.Below(30),
                          .gives_up_ms = 1000 + chance_.Below(20'000)};
      slowest_sync_ms_ = chance_.OneIn(2) ? 0 : chance_.Below(2000);
    }
    ASSERT_NO_FATAL_FAILURE(StartCoordinator(""));
    for (int64_t aggregator = 0; aggregator < options_.aggregators; ++aggregator) {
      aggregators_.emplace_back().disk = std::make_unique<Disk>(false, [this] { Slow(); });
    }
    if (options_.death.of == Death::Of::kAggregator) {
      aggregators_[0].disk->CutAt(options_.death.operation, [this] {
        aggregators_[0].link->Cut();
        aggregators_[0].address->Close();
      });
    }
    for (size_t aggregator = 0; aggregator < aggregators_.size(); ++aggregator) StartAggregator(aggregator);
    clients_.resize(static_cast<size_t>(fleet_));
    for (size_t client = 0; client < clients_.size(); ++client) {
      clients_[client].disk = std::make_unique<Disk>(false, [this] { Slow(); });
      if (client == 0 && options_.death.of == Death::Of::kClient)
        clients_[0].disk->CutAt(options_.death.operation, [this] { clients_[0].link->Cut(); });
      StartClient(client);
    }
    heap_ = mallinfo2().uordblks;
    AwaitDeath();
    if (!options_.calm) {
      ASSERT_NO_FATAL_FAILURE(Storm());
    }
    ASSERT_NO_FATAL_FAILURE(GoOnInSunshine());
    ASSERT_NO_FATAL_FAILURE(CheckEnd());
  }

  const StormCounts& counts() const { return counts_; }
  const std::string& story() const { return story_; }
  const std::string& last_digest() const { return last_digest_; }
  bool died() const { return died_; }  // true if the planned death happened before the end

 private:
  struct ClientMachine {
    std::unique_ptr<Disk> disk;
    std::shared_ptr<ClientStateStore> states;
    std::unique_ptr<Link> link;
    std::unique_ptr<Agent> agent;  // null: off
    std::thread thread;
    bool done = false;
    Status result;
    int64_t aggregator = -1;
  };
  struct AggregatorMachine {
    std::unique_ptr<Disk> disk;
    std::unique_ptr<Address> address = std::make_unique<Address>();
    std::unique_ptr<Link> link;
    std::unique_ptr<Aggregator> aggregator;  // null: off
    std::thread thread;
  };

  template <typename... Args>
  void Tell(fmt::format_string<Args...> format, Args&&... args) {
    story_ += fmt::format("{:8} ", VirtualThreads::NowMs()) + fmt::format(format, std::forward<Args>(args)...) + "\n";
  }

  Scenario ScenarioOf() {
    Scenario scenario = PixelFederation(fleet_, 2 + chance_.Below(4));
    scenario.run.seed = 1 + options_.seed % 1000;
    const char* const durabilities[] = {"round", "second", "end"};
    scenario.run.durability = durabilities[chance_.Below(3)];
    const int64_t per_round = options_.everybody ? fleet_ : 1 + chance_.Below(fleet_);
    scenario.server.clients_per_round = per_round;
    scenario.server.min_clients = options_.everybody ? fleet_ : per_round + chance_.Below(fleet_ - per_round + 1);
    scenario.server.min_reports = options_.everybody ? fleet_ : 1 + chance_.Below(per_round);
    scenario.server.deadline_seconds = options_.everybody ? 1e8 : 30.0 + static_cast<double>(chance_.Below(300));
    scenario.server.lease_seconds = 5.0 + static_cast<double>(chance_.Below(60));
    scenario.server.presence_seconds = options_.everybody ? 100'000 : 20.0 + static_cast<double>(chance_.Below(100));
    scenario.server.max_attempts = 0;
    scenario.server.checkpoint_reports = options_.seed % 3 == 0 || options_.planted == Planted::kLyingReports;
    if (options_.algorithm != nullptr) options_.algorithm->set(scenario);
    if (options_.algorithm != nullptr && options_.algorithm->outlives_versions) {
      scenario.server.in_flight = 1 + chance_.Below(fleet_);
      scenario.server.max_staleness = chance_.Below(4);
    }
    return scenario;
  }

  static StatusOr<std::shared_ptr<const Plan>> PlanOf(const Scenario& scenario, Planted planted) {
    if (planted != Planted::kFoldsAgain) return ComposePlan(scenario, PixelModel());
    RIVULET_ASSIGN_OR_RETURN(const ModelLayout layout, ModelLayoutOf(PixelModel()));
    RIVULET_ASSIGN_OR_RETURN(Composition composition, Compose(scenario, layout));
    composition.aggregation.rule = ForgetfulMean::kRule;
    return Plan::Build(scenario, PixelModel(), composition);
  }

  std::string NameOf(size_t client) const { return fmt::format("client-{:05}", client); }
  void Slow() {
    if (slowest_sync_ms_ > 0) SleepMs(chance_.Below(slowest_sync_ms_));
  }

  void StartCoordinator(const std::string& resume) {
    const Interleaved interleaved;
    CoordinatorOptions options;
    options.scenario = scenario_;
    options.plan = plan_;
    options.db_path = disk_.File("runs.sqlite");
    options.resume = resume;
    options.file_system = &disk_.files();
    auto created = Coordinator::Create(std::move(options));
    ASSERT_OK(created) << story_;
    coordinator_ = *std::move(created);
    run_id_ = coordinator_->run_id();
    served_ = Plant(options_.planted, *coordinator_);
    address_.Open(*served_);
    Tell("the coordinator serves {}", run_id_);
  }

  // It is dead from the first line on; the rest releases its memory.
  void StopCoordinator(bool power_is_lost) {
    Tell("the coordinator dies{}", power_is_lost ? " with its power" : "");
    address_.Close();
    disk_.Cut();
    coordinator_->Stop();
    address_.AwaitEmpty();
    coordinator_.reset();
    disk_.Recover(power_is_lost);
    ++counts_.coordinator_deaths;
    CheckRows();
  }

  void StartClient(size_t number) {
    ClientMachine& client = clients_[number];
    if (!aggregators_.empty() && client.aggregator < 0) client.aggregator = chance_.Below(std::ssize(aggregators_) + 1);
    const bool by_aggregator = client.aggregator >= 0 && client.aggregator < std::ssize(aggregators_);
    Address& to = by_aggregator ? *aggregators_[static_cast<size_t>(client.aggregator)].address : address_;
    client.link = std::make_unique<Link>(network_, to, options_.calm ? 1000 : most_work_ms_);
    client.states = NewStateStore(client.disk->files(), client.disk->folder(), true);
    AgentOptions options;
    options.client_id = NameOf(number);
    options.version = "test";
    options.data = {*data_.Of(options.client_id)};
    options.states = client.states;
    const bool may_die = options_.death.of == Death::Of::kClient;
    if (may_die) {
      options.checkpoint =
          std::make_shared<TrainingCheckpoint>(client.disk->files(), client.disk->File("training"), options.client_id,
                                               TrainingCheckpoint::Options{std::chrono::milliseconds(0), "test", {}});
    }
    if (may_die || options_.seed % 2 == 0) {
      options.persisted =
          std::make_shared<PersistedUpdates>(client.disk->files(), JoinPath(client.disk->folder(), "updates"),
                                             options.client_id, PersistedUpdates::Options{});
    }
    options.observer.on_task = [this, number](const Task& task) { Given(number, task); };
    client.agent = std::make_unique<Agent>(*client.link, std::move(options));
    client.done = false;
    Tell("{} starts{}", NameOf(number), by_aggregator ? fmt::format(", of aggregator {}", client.aggregator) : "");
    client.thread = std::thread([&client] {
      client.result = client.agent->Run();
      client.done = true;
    });
  }
  void StopClient(size_t number, bool power_is_lost) {
    ClientMachine& client = clients_[number];
    if (client.agent == nullptr) return;
    Tell("{} dies", NameOf(number));
    client.link->Cut();
    client.disk->Cut();
    client.agent->Stop();
    client.thread.join();
    client.agent.reset();
    client.states.reset();
    client.disk->Recover(power_is_lost);
    ++counts_.client_deaths;
  }

  void StartAggregator(size_t number) {
    const Interleaved interleaved;
    AggregatorMachine& machine = aggregators_[number];
    machine.link = std::make_unique<Link>(network_, address_, 0);
    machine.aggregator = std::make_unique<Aggregator>(
        *machine.link, AggregatorOptions{.name = fmt::format("aggregator-{}", number),
                                         .version = "test",
                                         .folder = machine.disk->folder(),
                                         .state = machine.disk->File("updates"),
                                         .file_system = &machine.disk->files(),
                                         .on_event = [this, number](const std::string&, const std::string& sentence) {
                                           Tell("aggregator {}: {}", number, sentence);
                                         }});
    Tell("aggregator {} starts", number);
    if (!machine.disk->is_cut()) machine.address->Open(*machine.aggregator);
    machine.thread = std::thread([this, &machine, number] {
      const Status result = machine.aggregator->Run();
      Tell("aggregator {} has ended: {}", number, Message(result));
    });
  }
  void StopAggregator(size_t number, bool power_is_lost) {
    AggregatorMachine& machine = aggregators_[number];
    if (machine.aggregator == nullptr) return;
    Tell("aggregator {} dies{}", number, power_is_lost ? " with its power" : "");
    machine.link->Cut();
    machine.address->Close();
    machine.disk->Cut();
    machine.aggregator->Stop();
    machine.thread.join();
    machine.address->AwaitEmpty();
    machine.aggregator.reset();
    machine.disk->Recover(power_is_lost);
    ++counts_.aggregator_deaths;
  }

  bool Over() const { return coordinator_ != nullptr && coordinator_->over(); }

  // The process that was to die at an operation is dead, and is restarted by GoOnInSunshine.
  void AwaitDeath() {
    if (options_.death.of == Death::Of::kNobody) return;
    const bool aggregator = options_.death.of == Death::Of::kAggregator;
    const Disk& disk = aggregator ? *aggregators_[0].disk : *clients_[0].disk;
    for (int64_t looks = 0; !disk.is_cut() && looks < 100'000; ++looks) {
      if (Over() && std::ranges::all_of(clients_, &ClientMachine::done)) break;
      SleepMs(20);
    }
    died_ = disk.is_cut();
    if (!died_) return;
    aggregator ? StopAggregator(0, true) : StopClient(0, true);
  }

  // Lets all faults happen for a while.
  void Storm() {
    const int64_t until = VirtualThreads::NowMs() + 20'000 + chance_.Below(300'000);
    const int64_t pace = 500 + chance_.Below(20'000);
    while (VirtualThreads::NowMs() < until) {
      SleepMs(1 + chance_.Below(pace));
      if (::testing::Test::HasFailure()) return;
      const auto client = static_cast<size_t>(chance_.Below(fleet_));
      switch (chance_.Below(6)) {
        case 0:
          if (coordinator_ == nullptr) {
            ASSERT_NO_FATAL_FAILURE(StartCoordinator("latest"));
          } else {
            ASSERT_NO_FATAL_FAILURE(StopCoordinator(chance_.OneIn(2)));
          }
          break;
        case 1:
          if (aggregators_.empty()) break;
          if (const auto aggregator = static_cast<size_t>(chance_.Below(std::ssize(aggregators_)));
              aggregators_[aggregator].aggregator == nullptr) {
            StartAggregator(aggregator);
          } else {
            StopAggregator(aggregator, chance_.OneIn(2));
          }
          break;
        default:
          ComeOrGo(client);
          // Of many as large a share as of a few.
          for (int64_t others = fleet_ / 40; others > 0; --others) ComeOrGo(static_cast<size_t>(chance_.Below(fleet_)));
      }
    }
  }
  void ComeOrGo(size_t client) {
    if (clients_[client].agent == nullptr) {
      StartClient(client);
    } else if (!clients_[client].done) {
      StopClient(client, chance_.OneIn(2));
    }
  }

  // All processes run and nothing fails any more: the run must end, and all clients must be told.
  void GoOnInSunshine() {
    constexpr int64_t kLongestMs = 3'600'000;
    Tell("the storm is over");
    counts_.faults = network_.faults;
    network_.weather = {};
    slowest_sync_ms_ = 0;
    most_work_ms_ = 1000;
    const int64_t until = VirtualThreads::NowMs() + kLongestMs;
    while (VirtualThreads::NowMs() < until) {
      if (::testing::Test::HasFailure()) return;
      if (coordinator_ == nullptr) {
        ASSERT_NO_FATAL_FAILURE(StartCoordinator("latest"));
      }
      for (size_t aggregator = 0; aggregator < aggregators_.size(); ++aggregator) {
        if (aggregators_[aggregator].aggregator == nullptr) StartAggregator(aggregator);
      }
      bool all = Over();
      for (size_t client = 0; client < clients_.size(); ++client) {
        if (clients_[client].agent == nullptr) StartClient(client);
        if (clients_[client].done) {
          ASSERT_OK(clients_[client].result) << NameOf(client);
        }
        all &= clients_[client].done;
      }
      if (all) break;
      SleepMs(1000);
    }
    if (!Over()) {
      const RunStatus standing = coordinator_->Standing();
      for (const RunStatus::Work& work : standing.work) {
        Tell("{} is {} of {} {}", Short(work.task), work.state, work.client_id, work.via);
      }
      FAIL() << "no progress for an hour: " << standing.state.awaits;
    }
    for (size_t client = 0; client < clients_.size(); ++client) {
      ASSERT_TRUE(clients_[client].done) << NameOf(client) << " does not hear that the run is over";
    }
    ASSERT_OK(coordinator_->Wait());
    Tell("the run is over");
  }

  // Stops everything, whatever the result, for the calling program.
  void Tidy() {
    for (size_t client = 0; client < clients_.size(); ++client) {
      ClientMachine& machine = clients_[client];
      if (machine.agent == nullptr) continue;
      machine.link->Cut();
      machine.agent->Stop();
      machine.thread.join();
    }
    for (size_t aggregator = 0; aggregator < aggregators_.size(); ++aggregator) StopAggregator(aggregator, false);
    address_.Close();
    if (coordinator_ != nullptr) coordinator_->Stop();
    address_.AwaitEmpty();
    coordinator_.reset();
    network_.AwaitLate();
  }

  void Given(size_t number, const Task& task) {
    Tell("{} begins {} from {}", NameOf(number), Short(task.id), task.base_version);
    ASSERT_EQ(task.client_id, NameOf(number));
    ++counts_.trained;
    counts_.again += !given_.insert_or_assign(task.id, task).second;
  }

  void Polled(const PollRequest& request, const PollReply& reply) override {
    for (const TaskOutcome& outcome : reply.outcomes) {
      if (outcome.end == TaskEnd::kFolded && outcome.durable && durable_.insert(outcome.task).second) {
        Tell("{} hears that {} is durable", request.caller.name, Short(outcome.task));
      }
    }
    const bool kept = scenario_.server.checkpoint_reports && options_.everybody;
    for (const Task& task : reply.tasks) {
      const auto sent = updates_.find(task.id);
      if (!kept || request.serves.kind != Serves::Kind::kItself || sent == updates_.end()) continue;
      EXPECT_NE(sent->second.trained_from, task.input("model")->id.digest.Hex())
          << task.id << " was acknowledged, and is requested again\n"
          << story_;
    }
    CheckMemory();
  }

  // A coordinator that persists updates may die before its answer; its next process counts them.
  void Ends(const Submission& submission, const std::string& bytes) override {
    if (!scenario_.server.checkpoint_reports || submission.kind != Submission::Kind::kUpdate || bytes.empty()) return;
    const Digest& base = given_.at(submission.task).input("model")->id.digest;
    whole_.insert_or_assign(submission.task, Update{bytes, base.Hex()});
  }

  // The coordinator's rows show a site's partial sum.
  void Sent(const Submission& submission, const std::string& bytes, const SubmitResult& result) override {
    if (submission.kind != Submission::Kind::kUpdate) return;
    Tell("{} is sent: {} {}", Short(submission.task), static_cast<int>(result.kind), result.reason);
    counts_.duplicates += result.kind == SubmitResult::Kind::kDuplicate;
    counts_.refused += result.kind == SubmitResult::Kind::kRefused;
    CheckMemory();
    if (result.kind != SubmitResult::Kind::kAccepted) return;
    ++counts_.accepted;
    const Task& task = given_.at(submission.task);
    const Digest& base = task.input("model")->id.digest;
    const auto [known, fresh] = trained_.emplace(std::tuple(task.id, base.Hex(), task.state_of), bytes);
    EXPECT_TRUE(known->second == bytes) << task.id << " trains to other bytes now\n" << story_;
    updates_.insert_or_assign(task.id, Update{bytes, base.Hex()});
    if (aggregators_.empty()) {
      EXPECT_TRUE(accepted_.insert(submission.task).second) << submission.task << " is accepted twice\n" << story_;
    }
  }

  // Models have a few hundred bytes: memory that grows is a leak, or an unbounded queue. A trained client, with the
  // recorded updates, takes a few hundred kilobytes.
  void CheckMemory() {
    constexpr size_t kMost = 48 << 20, kOfAClient = 256 << 10;
    if (++looks_ % 64 != 0) return;
    const size_t now = mallinfo2().uordblks;
    ASSERT_LT(now, heap_ + kMost + static_cast<size_t>(fleet_) * kOfAClient) << "memory grows without a bound\n"
                                                                             << story_;
  }

  std::string Short(const TaskId& task) const { return task.starts_with(run_id_) ? task.substr(run_id_.size()) : task; }

  std::vector<ClientRoundRow> Rows() {
    const auto history = History::Open(disk_.File("runs.sqlite"), History::Access::kReadOnly);
    EXPECT_OK(history) << story_;
    if (!history.ok()) return {};
    auto rows = (*history)->ClientRounds(run_id_);
    EXPECT_OK(rows);
    return rows.ok() ? *std::move(rows) : std::vector<ClientRoundRow>();
  }

  // Checked after a death, and at the end. Updates missing in the history were lost with the process and arrive again,
  // unless server.checkpoint_reports persists them.
  void CheckRows() {
    std::set<TaskId> folded, once;
    for (const ClientRoundRow& row : Rows()) {
      EXPECT_TRUE(once.insert(row.task_id).second) << row.task_id << " has two rows\n" << story_;
      if (row.status != "folded") continue;
      folded.insert(row.task_id);
      if (const auto whole = whole_.find(row.task_id); whole != whole_.end() && updates_.emplace(*whole).second)
        continue;
      if (aggregators_.empty()) {
        EXPECT_TRUE(accepted_.contains(row.task_id)) << row.task_id << " was never accepted\n" << story_;
      }
    }
    for (const TaskId& task : durable_) {
      EXPECT_TRUE(folded.contains(task)) << task << " was told to be durable, and is lost\n" << story_;
    }
    // Trained and accepted updates are not requested again if the coordinator persists them.
    if (scenario_.server.checkpoint_reports) {
      for (const TaskId& task : accepted_) {
        const auto name = TaskNameOf(task, run_id_);
        if (name && name->kind == TaskKind::kTrain) folded.insert(task);
      }
    }
    accepted_ = std::move(folded);
  }

  void CheckEnd() {
    counts_.virtual_ms = VirtualThreads::NowMs();
    counts_.switches = VirtualThreads::switches();
    CheckRows();
    const auto history = History::Open(disk_.File("runs.sqlite"), History::Access::kReadOnly);
    ASSERT_OK(history);
    ASSERT_OK_AND_ASSIGN(const RunRow run, (*history)->ResolveRun(run_id_));
    EXPECT_EQ(run.status, "finished");
    ASSERT_OK_AND_ASSIGN(const auto models, (*history)->Models(run_id_));
    ASSERT_EQ(std::ssize(models), scenario_.run.rounds + 1);
    std::map<int64_t, std::vector<ClientRoundRow>> versions;
    for (ClientRoundRow& row : Rows()) {
      if (row.status != "folded" || row.kind != "train") continue;
      const int64_t version = row.committed_round.value_or(row.round);
      const int64_t staleness = version - 1 - row.base_round;
      EXPECT_GE(staleness, 0);
      EXPECT_LE(staleness, continuous() ? scenario_.server.max_staleness : 0);
      counts_.late += staleness > 0;
      versions[version].push_back(std::move(row));
    }
    ASSERT_EQ(std::ssize(versions), scenario_.run.rounds);
    last_digest_ = models.back().digest;
    Tell("the last model is {}", last_digest_);
    CheckVersions(versions, models);
  }

  bool continuous() const { return options_.algorithm != nullptr && options_.algorithm->outlives_versions; }

  // Recomputes each version from the rows and the clients' uploads.
  void CheckVersions(const std::map<int64_t, std::vector<ClientRoundRow>>& versions,
                     const std::vector<ModelRow>& models) {
    ASSERT_OK_AND_ASSIGN(const Composition composition, Compose(scenario_, *plan_->layout()));
    ASSERT_OK_AND_ASSIGN(const auto optimizer, ServerOptimizer::Create(composition.server_optimizer));
    ASSERT_OK_AND_ASSIGN(const MeanMechanisms mechanisms,
                         MeanMechanisms::Create(composition.mean_mechanisms, scenario_.run.seed));
    ASSERT_OK_AND_ASSIGN(auto initial, InitialModel(*plan_, scenario_.run.seed));
    ASSERT_OK_AND_ASSIGN(ServerState state, FirstState(std::move(initial), *optimizer));
    const AggregationSpec& spec = plan_->aggregation();
    const std::optional<privacy::SumNoise> noise = testing::SeededNoise(composition, spec, scenario_.run.seed);
    for (const auto& [version, rows] : versions) {
      EXPECT_GE(std::ssize(rows), continuous() ? 1 : scenario_.server.min_reports);
      EXPECT_LE(std::ssize(rows), scenario_.server.clients_per_round);
      ASSERT_OK_AND_ASSIGN(auto aggregation, Aggregation::Create(spec));
      for (const ClientRoundRow& row : rows) {
        ASSERT_TRUE(updates_.contains(row.task_id)) << row.task_id << " was never sent\n" << story_;
        const Update& sent = updates_.at(row.task_id);
        EXPECT_EQ(sent.trained_from, models[static_cast<size_t>(row.base_round)].digest)
            << row.task_id << " was trained from a version that is not in this run\n"
            << story_;
        ASSERT_OK_AND_ASSIGN(const UpdateMessage update, ParseUpdate(sent.bytes));
        ASSERT_OK_AND_ASSIGN(Weights weights, WeightsOf(spec, update.scalars, {}));
        ASSERT_OK(aggregation->Take({row.task_id, row.base_round, update.parts, update.scalars}, weights));
      }
      ASSERT_OK_AND_ASSIGN(
          state, MakeVersion(state, std::move(aggregation), StalenessOf(version, composition.policy.staleness_exponent),
                             {*optimizer,
                              scenario_.server.learning_rate,
                              &mechanisms,
                              version,
                              nullptr,
                              nullptr,
                              {},
                              noise ? &*noise : nullptr},
                             nullptr, nullptr));
      EXPECT_EQ(models[static_cast<size_t>(version)].digest, state.digest.Hex())
          << "version " << version << " is not what its rows say\n"
          << story_;
    }
  }

  const StormOptions options_;
  Chance chance_;
  const int64_t fleet_;
  const Scenario scenario_;
  const PixelData data_;
  int64_t slowest_sync_ms_ = 0, most_work_ms_ = 30'000;
  std::string run_id_, story_, last_digest_;
  StormCounts counts_;
  bool died_ = false;
  size_t heap_ = 0;
  int64_t looks_ = 0;
  std::map<TaskId, Task> given_;
  // The update, by task, base version and the client's state.
  std::map<std::tuple<TaskId, std::string, TaskId>, std::string> trained_;
  struct Update {
    std::string bytes, trained_from;  // the model's digest
  };
  std::map<TaskId, Update> updates_;  // as accepted last
  std::map<TaskId, Update> whole_;    // as received last, whatever the result
  std::set<TaskId> accepted_;         // by this coordinator process, or in the history
  std::set<TaskId> durable_;          // as reported to clients
  std::shared_ptr<const Plan> plan_;
  Disk disk_;
  Address address_;
  std::deque<AggregatorMachine> aggregators_;
  Network network_;
  std::unique_ptr<Coordinator> coordinator_;  // null: off
  std::unique_ptr<CoordinatorApi> served_;    // the coordinator itself, or with a fault
  std::vector<ClientMachine> clients_;
};

}  // namespace rivulet::testing
