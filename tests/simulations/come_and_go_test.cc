// Twenty clients that come and go at random, under each of the ten algorithms: they join late, are silent for a while
// or for ever, forget what they had in hand, train a task once more, send it late, twice, half, damaged, or as somebody
// else's, and lose the answer; the coordinator is stopped now and then and goes on. Everything but the network is what
// a federation runs: the coordinator with its machine, leases, intake, folds, history and files, and the client's
// trainer with its codec and its store of states.
//
// What holds whatever comes:
//
//   no update is in two versions, or in one twice, and no task is accepted twice
//   who has no lease of a task cannot send for it; what came too late is in no version
//   a task begins with what its client kept of its newest task in a version up to the task's own, neither ahead nor
//     behind, and with the bytes that were proposed then
//   a task that is trained again gives the same bytes
//   each version is what the updates that its rows name come to, with the weights that the plan says
//
// Time is a number of this file, the coordinator's own threads have come to rest before each step, and all chance is
// the seed's: a seed repeats exactly. RIVULET_SEEDS = 17 or 1-100 says which are run, otherwise the first few.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <random>
#include <set>

#include "client/agent/update_message_writer.h"
#include "client/calls/send_submission.h"
#include "client/training/task_trainer.h"
#include "coordinator/commit/commit.h"
#include "coordinator/coordinator.h"
#include "coordinator/history/history.h"
#include "federated/aggregation/staleness.h"
#include "federated/algorithms/algorithm.h"
#include "federated/states/state_store.h"
#include "federated/updates/update_message.h"
#include "tests/simulations/ten_algorithms.h"
#include "tests/testing/seeded_noise.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using testing::PixelClient;
using testing::PixelExamples;
using testing::PixelModel;
using testing::TenthAlgorithm;

constexpr int64_t kFleet = 20, kFleetRounds = 4;

std::string FleetName(int64_t client) { return fmt::format("client-{:05}", client); }

// Hears what the coordinator's threads do, so that a step is taken when they have nothing to do.
class FleetWatch {
 public:
  explicit FleetWatch(int64_t rounds, bool measured) : rounds_(rounds), measured_(measured) {}

  CoordinatorObserver Observer() {
    CoordinatorObserver observer;
    observer.on_action = [this](const std::string& action) {
      std::lock_guard lock(mutex_);
      begun_ += action.starts_with("commit ") || action.starts_with("abandon ") || action.starts_with("evaluated ");
      if (action.starts_with(fmt::format("refuse {}:", awaited_))) heard_ = true;
      changed_.notify_all();
    };
    observer.on_round = [this](const RoundReport& report) {
      std::lock_guard lock(mutex_);
      ++ended_;
      abandoned += report.status == "abandoned";
      ends_ |= report.status == "failed" || (report.round == rounds_ && report.status == "committed" && !measured_);
      changed_.notify_all();
    };
    observer.on_evaluation = [this](const EvaluationReport& report) {
      std::lock_guard lock(mutex_);
      ++ended_;
      ++evaluations;
      ends_ |= report.round == rounds_;
      changed_.notify_all();
    };
    observer.on_finished = [this](const Status&) {
      std::lock_guard lock(mutex_);
      finished_ = true;
      changed_.notify_all();
    };
    return observer;
  }

  void Begin() {
    std::lock_guard lock(mutex_);
    begun_ = ended_ = 0;
    ends_ = finished_ = false;
  }

  // Callbacks come in the order of what they tell. So once a nobody's failure, which changes nothing and moves the
  // coordinator's clock on, has been heard of, everything before it has been; and when as many attempts have been told
  // of as were closed, nobody works.
  void AwaitRest(Coordinator& coordinator) {
    for (;;) {
      {
        std::lock_guard lock(mutex_);
        awaited_ = fmt::format("nobodys-{}", ++probes_);
        heard_ = false;
      }
      (void)coordinator.Fail({.name = "nobody"}, {.task = awaited_, .sentence = "no"});
      std::unique_lock lock(mutex_);
      ASSERT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [&] { return finished_ || heard_; }))
          << "the coordinator does not come to rest";
      if (finished_ || (begun_ == ended_ && !ends_)) return;
      ASSERT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [&] {
        return finished_ || (begun_ == ended_ && !ends_);
      })) << "an attempt is not closed";
      if (finished_) return;
    }
  }

  int64_t abandoned = 0, evaluations = 0;  // of all processes

 private:
  const int64_t rounds_;
  const bool measured_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t begun_ = 0, ended_ = 0, probes_ = 0;
  bool ends_ = false, finished_ = false, heard_ = false;
  std::string awaited_;
};

// The production store, beside a book of every proposal: what is read is what was proposed, and no earlier nor later.
class WitnessedStates final : public ClientStateStore {
 public:
  void Begin(const std::string& folder) {
    store_ = NewStateStore(FileSystem::Default(), folder, false);
    proposed_.clear();
  }
  StatusOr<StateBlob> Read(std::string_view run_id, std::string_view client_id, const TaskId& state_of) override {
    auto read = store_->Read(run_id, client_id, state_of);
    EXPECT_OK(read) << state_of;
    if (read.ok() && !state_of.empty()) {
      EXPECT_EQ(*read, proposed_.at(state_of)) << state_of;
    }
    return read;
  }
  Status Propose(std::string_view run_id, std::string_view client_id, const TaskId& task, StateBlob state) override {
    proposed_[task] = state;
    return store_->Propose(run_id, client_id, task, std::move(state));
  }
  void Durable(std::string_view run_id, std::string_view client_id, const TaskId& task) override {
    store_->Durable(run_id, client_id, task);
  }
  void Forget(std::string_view run_id, std::string_view client_id, const TaskId& task) override {
    store_->Forget(run_id, client_id, task);
  }

 private:
  std::unique_ptr<ClientStateStore> store_;
  std::map<TaskId, StateBlob> proposed_;
};

// What is made once for all seeds: a plan is compiled once.
struct FleetWorkshop {
  FleetWorkshop() { EnterWorkerThread(); }
  ArtifactCache artifacts;
  StopSignal stop;
  WitnessedStates states;
  TaskTrainer trainer{artifacts, stop, {}, &states};
  const testing::PixelData data{kFleet};
};

struct FleetCounts {
  int64_t late = 0, restarts = 0, again = 0, dropped = 0, abandoned = 0, duplicates = 0, refused = 0, kept = 0,
          evaluations = 0, boasts = 0;
};

// One run, from its first coordinator to the last.
class FleetRun {
 public:
  FleetRun(FleetWorkshop& shop, const TenthAlgorithm& algorithm, uint32_t seed)
      : shop_(shop),
        algorithm_(algorithm),
        random_(seed),
        scenario_(ScenarioOf(seed)),
        watch_(kFleetRounds, scenario_.evaluation.federated_every > 0) {}

  void Go() {
    auto plan = ComposePlan(scenario_, PixelModel());
    ASSERT_OK(plan);
    plan_ = *plan;
    shop_.states.Begin(folder_.File("clients"));
    ASSERT_NO_FATAL_FAILURE(Start(""));
    for (int step = 0; step < 20'000 && !over_; ++step) {
      now_ += Below(500);
      ASSERT_NO_FATAL_FAILURE(watch_.AwaitRest(*coordinator_));  // what is due by now is done
      if (may_stop_ && Below(90) == 0 && counts_.restarts < 3) Restart();
      if (::testing::Test::HasFailure() || over_) break;
      Step();
      if (::testing::Test::HasFailure()) return;
      ASSERT_NO_FATAL_FAILURE(watch_.AwaitRest(*coordinator_));  // at the time at which it began
    }
    ASSERT_TRUE(over_) << "the run does not end";
    ASSERT_OK(coordinator_->Wait());
    run_id_ = coordinator_->run_id();
    coordinator_.reset();
    Check();
    counts_.abandoned = watch_.abandoned;
    counts_.evaluations = watch_.evaluations;
  }

  const FleetCounts& counts() const { return counts_; }
  const std::string& story() const { return story_; }  // all that was asked and answered; the same for the same seed

 private:
  struct InHand {
    Task task;
    std::string update;  // once trained
  };
  struct Client {
    bool gone = true;
    int64_t back = 0;  // comes (again) then, where it comes at all
    uint64_t session = 1;
    std::map<TaskKind, InHand> in_hand;
  };

  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint32_t>(n)); }

  Scenario ScenarioOf(uint32_t seed) {
    Scenario scenario = testing::PixelFederation(kFleet, kFleetRounds);
    scenario.run.seed = seed;
    scenario.run.durability = Below(2) == 0 ? "round" : "end";
    scenario.server.clients_per_round = 3 + Below(2) * 2;  // of few kinds, so that few plans are compiled
    scenario.server.min_clients = 8;
    scenario.server.min_reports = 1 + Below(scenario.server.clients_per_round - 1);
    scenario.server.deadline_seconds = 60;
    scenario.server.lease_seconds = 15;
    scenario.server.presence_seconds = 40;
    if (seed % 4 == 0) scenario.evaluation.federated_every = 2;
    may_stop_ = seed % 3 != 0;
    algorithm_.set(scenario);
    if (algorithm_.outlives_versions) {
      scenario.server.in_flight = 1 + Below(9);
      scenario.server.max_staleness = Below(4);
    }
    return scenario;
  }

  Caller CallerOf(int64_t client) const {
    return {.name = FleetName(client), .session = clients_[static_cast<size_t>(client)].session};
  }

  // What happened, without the run's own name.
  template <typename... Args>
  void Tell(fmt::format_string<Args...> format, Args&&... args) {
    std::string line = fmt::format(format, std::forward<Args>(args)...);
    for (size_t at; (at = line.find(run_id_)) != line.npos;) line.erase(at, run_id_.size());
    story_ += line + "\n";
  }

  void Start(const std::string& resume) {
    CoordinatorOptions options;
    options.scenario = scenario_;
    options.plan = plan_;
    options.db_path = folder_.File("runs.sqlite");
    options.resume = resume;
    options.now_ms = [this] { return now_.load(); };
    options.observer = watch_.Observer();
    watch_.Begin();
    auto created = Coordinator::Create(std::move(options));
    ASSERT_OK(created);
    coordinator_ = *std::move(created);
    run_id_ = coordinator_->run_id();
  }

  void Step() {
    const int64_t number = Below(kFleet);
    Client& client = clients_[static_cast<size_t>(number)];
    if (client.gone) {
      if (now_ < client.back) return;
      client.gone = false;
    } else if (Below(25) == 0) {  // dies without a word, with all that it had in memory, for some time or for ever
      client.gone = true;
      client.back = now_ + (number < 10 ? Below(60'000) : Below(8) * 20'000);
      ++client.session;
      client.in_hand.clear();
      Tell("{} is gone", number);
      return;
    }
    if (!old_.empty() && Below(12) == 0) return Resend();
    if (!client.in_hand.empty() && Below(3) == 0) return Work(number, client);
    Poll(number, client);
  }

  void Poll(int64_t number, Client& client) {
    PollRequest request{CallerOf(number),
                        {.version = "test", .datasets = {{"train", PixelExamples(FleetName(number))}}}};
    if (Below(8) > 0) {
      for (const auto& [kind, mine] : client.in_hand) request.working_on.push_back({mine.task.id, false});
    }
    ASSERT_OK_AND_ASSIGN(const PollReply reply, coordinator_->Poll(request));
    Tell("{} polls: {} tasks, {} cancelled, {}", number, reply.tasks.size(), reply.cancelled.size(),
         reply.awaited.sentence);
    over_ = reply.over.has_value();
    EXPECT_FALSE(over_ && reply.over->failed) << reply.over->sentence;
    for (const TaskOutcome& outcome : reply.outcomes) {
      if (outcome.end != TaskEnd::kFolded) {
        shop_.states.Forget(run_id_, FleetName(number), outcome.task);
      } else if (outcome.durable) {
        shop_.states.Durable(run_id_, FleetName(number), outcome.task);
      }
    }
    for (const TaskId& cancelled : reply.cancelled) {
      std::erase_if(client.in_hand, [&](const auto& mine) { return mine.second.task.id == cancelled; });
    }
    for (const Task& task : reply.tasks) {
      Tell("{} is given {} from {} with the state of {}", number, task.id, task.base_version, task.state_of);
      ASSERT_EQ(task.client_id, FleetName(number));
      const auto [known, fresh] = given_.emplace(task.id, task);
      ASSERT_EQ(known->second.base_version, task.base_version) << task.id << " is another now";
      ASSERT_EQ(known->second.state_of, task.state_of) << task.id << " is another now";
      InHand& mine = client.in_hand[task.kind];
      if (mine.task.id != task.id) mine = {task, ""};
    }
  }

  Status Train(const Caller& caller, InHand& mine) {
    const auto fetch = [&](const BlobId& id) -> StatusOr<std::string> {
      RIVULET_ASSIGN_OR_RETURN(const auto reader, coordinator_->Fetch(caller, id, 0));
      std::string bytes;
      for (;;) {
        RIVULET_ASSIGN_OR_RETURN(const auto chunk, reader->Next());
        if (chunk.empty()) return bytes;
        bytes.append(reinterpret_cast<const char*>(chunk.data()), chunk.size());
      }
    };
    TaskTrainer::Sources sources;
    sources.plan = [&] { return fetch({BlobId::Form::kBytes, mine.task.plan}); };
    sources.model = [&](const BlobId& id, const Plan& plan) {
      return shop_.artifacts.ModelVersion(id.digest, plan, [&] { return fetch(id); });
    };
    sources.blob = [&fetch](const BlobId& id, int64_t) { return fetch(id); };
    RIVULET_ASSIGN_OR_RETURN(const BoundData data, shop_.data.Of(caller.name));
    RIVULET_ASSIGN_OR_RETURN(const LocalResult trained,
                             shop_.trainer.Train(mine.task, caller.name, {&data, 1}, sources));
    mine.update = WriteUpdate(trained);
    const auto [known, fresh] = trained_.emplace(mine.task.id, mine.update);
    EXPECT_EQ(known->second, mine.update) << mine.task.id << " trains to other bytes now";
    counts_.kept += !mine.task.state_of.empty();
    return absl::OkStatus();
  }

  void Work(int64_t number, Client& client) {
    const auto at = Below(2) == 0 ? client.in_hand.begin() : std::prev(client.in_hand.end());
    InHand& mine = at->second;
    const Caller caller = CallerOf(number);
    if (mine.update.empty()) {
      const Status trained = Train(caller, mine);
      Tell("{} trains {}: {}", number, mine.task.id, Message(trained));
      if (trained.ok()) return;
      // Of a task that has lapsed, or was lost in a restart, the version may be gone. Nothing else can go wrong.
      ASSERT_TRUE(absl::IsNotFound(trained)) << Message(trained);
      client.in_hand.erase(at);
      return;
    }
    const TaskId task = mine.task.id;
    switch (Below(16)) {
      case 0:
        Tell("{} fails {}", number, task);
        if (coordinator_->Fail(caller, {.task = task, .sentence = "no"}).ok()) failed_.insert(task);
        Keep(number, mine);
        client.in_hand.erase(at);
        return;
      case 1: {  // its connection breaks
        const auto writer = coordinator_->Submit(caller, {task, 0, std::ssize(mine.update)});
        Tell("{} breaks off {}", number, task);
        if (!writer.ok() || (*writer)->decided() != nullptr) return;
        ASSERT_OK((*writer)->Resume(0));
        ASSERT_OK((*writer)->Write(std::as_bytes(std::span(mine.update)).first(mine.update.size() / 2)));
        return;
      }
      case 2:  // somebody else's
        ASSERT_NO_FATAL_FAILURE(Send((number + 1) % kFleet, task, mine.update));
        return;
      case 3: {  // damaged on its way
        std::string damaged = mine.update;
        damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 16);
        const auto writer = coordinator_->Submit(caller, {task, 0, std::ssize(damaged)});
        Tell("{} sends {} damaged", number, task);
        if (!writer.ok() || (*writer)->decided() != nullptr) return;
        ASSERT_OK((*writer)->Resume(0));
        ASSERT_OK((*writer)->Write(std::as_bytes(std::span(damaged))));
        BlockCrcs meant;
        meant.Append(std::as_bytes(std::span(mine.update)));
        const auto result = (*writer)->Finish(meant.Identity(0));
        ASSERT_FALSE(result.ok() && result->kind == SubmitResult::Kind::kAccepted);
        return;
      }
      case 4:  // the answer is lost: it believes that it has still to send
        ASSERT_NO_FATAL_FAILURE(Send(number, task, mine.update));
        return;
      case 6:  // it says more than it may
        if (scenario_.privacy.clip == 0 || mine.task.kind != TaskKind::kTrain) break;
        ASSERT_NO_FATAL_FAILURE(Boast(caller, mine));
        client.in_hand.erase(at);
        return;
      case 5:  // it forgets that it has trained, and trains again
        mine.update.clear();
        return;
      default:
        break;
    }
    Keep(number, mine);
    ASSERT_NO_FATAL_FAILURE(Send(number, task, mine.update));
    client.in_hand.erase(at);
  }

  // To be sent once more, when nobody waits for it.
  void Keep(int64_t number, const InHand& mine) {
    old_.push_back({number, mine.task.id, mine.update});
    if (old_.size() > 12) old_.pop_front();
  }

  // An update that was not clipped is in no version.
  void Boast(const Caller& caller, const InHand& mine) {
    ASSERT_OK_AND_ASSIGN(const UpdateMessage update, ParseUpdate(mine.update));
    std::vector<std::vector<float>> values;
    std::vector<FloatRun> runs;
    std::vector<PartView> parts;
    values.reserve(update.parts.size()), runs.reserve(update.parts.size());
    for (const PartView& part : update.parts) {
      std::vector<float>& more = values.emplace_back(part.data.size() / sizeof(float), 1.0f);
      runs.push_back({more.data(), nullptr, std::ssize(more)});
      parts.push_back({.name = part.name, .runs = {&runs.back(), 1}});
    }
    const std::string boast = WriteUpdate(parts, update.scalars);
    BlockCrcs crcs;
    crcs.Append(std::as_bytes(std::span(boast)));
    const auto result = SendSubmission(*coordinator_, caller, {mine.task.id, 0, std::ssize(boast)},
                                       std::as_bytes(std::span(boast)), crcs);
    if (result.ok()) {
      ASSERT_NE(result->kind, SubmitResult::Kind::kAccepted) << "an update that was not clipped";
      counts_.boasts += result->reason.find("privacy.clip") != std::string::npos;
    }
    Tell("{} boasts of {}", caller.name, mine.task.id);
  }

  // What was sent long ago comes once more.
  void Resend() {
    const auto& [number, task, update] = old_[static_cast<size_t>(Below(std::ssize(old_)))];
    Send(number, task, update);
  }

  void Send(int64_t number, const TaskId& task, const std::string& update) {
    BlockCrcs crcs;
    crcs.Append(std::as_bytes(std::span(update)));
    const auto result = SendSubmission(*coordinator_, CallerOf(number), {task, 0, std::ssize(update)},
                                       std::as_bytes(std::span(update)), crcs);
    // In which words an old one is turned away depends on whether its row is written yet.
    const bool taken = result.ok() && result->kind == SubmitResult::Kind::kAccepted;
    Tell("{} sends {}: {}", number, task, taken ? "accepted" : "not accepted");
    if (!result.ok()) {
      // No such task for it, a version that is full, or an update of that name that is being looked at.
      ASSERT_TRUE(absl::IsNotFound(result.status()) || absl::IsUnavailable(result.status()))
          << Message(result.status());
      return;
    }
    counts_.duplicates += result->kind == SubmitResult::Kind::kDuplicate;
    counts_.refused += result->kind == SubmitResult::Kind::kRefused;
    if (!taken) return;
    ASSERT_EQ(given_.at(task).client_id, FleetName(number)) << task << " is accepted of somebody else";
    ASSERT_FALSE(failed_.contains(task)) << task << " is accepted after it was given up";
    ASSERT_TRUE(accepted_.insert(task).second) << task << " is accepted twice";
  }

  std::vector<ClientRoundRow> Rows() const {
    const auto history = History::Open(folder_.File("runs.sqlite"), History::Access::kReadOnly);
    EXPECT_OK(history);
    auto rows = (*history)->ClientRounds(run_id_);
    EXPECT_OK(rows);
    return *std::move(rows);
  }

  // Stopped it keeps its versions, and what was on its way into the next one is sent anew.
  void Restart() {
    ++counts_.restarts;
    coordinator_->Stop();
    (void)coordinator_->Wait();
    coordinator_.reset();
    accepted_.clear();
    failed_.clear();  // of an attempt that was open all begins anew
    std::set<TaskId> ended;
    for (const ClientRoundRow& row : Rows()) {
      ended.insert(row.task_id);
      if (row.status == "folded") accepted_.insert(row.task_id);
    }
    now_ = Below(1000) + 1;
    for (Client& client : clients_) client.back = std::min<int64_t>(client.back, 60'000);
    Tell("the coordinator is stopped and goes on");
    ASSERT_NO_FATAL_FAILURE(Start("latest"));
    over_ = coordinator_->already_finished();
    if (over_) return;
    ASSERT_NO_FATAL_FAILURE(watch_.AwaitRest(*coordinator_));
    // What was under way when the last version was made is under way again.
    for (int64_t number = 0; number < kFleet; ++number) {
      Client& client = clients_[static_cast<size_t>(number)];
      if (client.gone || client.in_hand.empty()) continue;
      const TaskId before = client.in_hand.begin()->second.task.id;
      if (Below(2) == 0) continue;
      client.in_hand.clear();
      ASSERT_NO_FATAL_FAILURE(Poll(number, client));
      if (over_) return;
      const auto again = client.in_hand.find(TaskKind::kTrain);
      counts_.again += again != client.in_hand.end() && again->second.task.id == before;
    }
  }

  // From the rows and from what clients have trained each version comes out again.
  void Check() {
    const auto history = History::Open(folder_.File("runs.sqlite"), History::Access::kReadOnly);
    ASSERT_OK(history);
    ASSERT_OK_AND_ASSIGN(const RunRow run, (*history)->ResolveRun("latest"));
    EXPECT_EQ(run.status, "finished");
    ASSERT_OK_AND_ASSIGN(const auto models, (*history)->Models(run_id_));
    std::map<int64_t, std::vector<ClientRoundRow>> versions;
    std::set<TaskId> once;
    std::map<std::string, std::map<int64_t, TaskId>> folded;  // by client and version
    for (const ClientRoundRow& row : Rows()) {
      EXPECT_TRUE(once.insert(row.task_id).second) << row.task_id;
      counts_.dropped += row.status == "dropped";
      if (const auto given = given_.find(row.task_id); given != given_.end()) {
        EXPECT_EQ(row.base_round, given->second.base_version);
        EXPECT_EQ(row.kind, Name(given->second.kind));
      }
      if (row.status != "folded") continue;
      EXPECT_TRUE(accepted_.contains(row.task_id)) << row.task_id << " is in the history and was not accepted";
      EXPECT_EQ(row.examples, PixelExamples(row.client_id));
      if (row.kind != "train") continue;
      const int64_t version = row.committed_round.value_or(row.round);
      versions[version].push_back(row);
      const int64_t staleness = version - 1 - row.base_round;
      EXPECT_GE(staleness, 0);
      EXPECT_LE(staleness, algorithm_.outlives_versions ? scenario_.server.max_staleness : 0);
      counts_.late += staleness > 0;
      const bool alone = folded[row.client_id].emplace(version, row.task_id).second;
      EXPECT_TRUE(alone || algorithm_.outlives_versions) << row.client_id << " is in version " << version << " twice";
    }
    ASSERT_EQ(std::ssize(models), kFleetRounds + 1);
    ASSERT_EQ(std::ssize(versions), kFleetRounds);
    for (const auto& [id, task] : given_) {
      TaskId newest;
      for (const auto& [version, of] : folded[task.client_id]) {
        if (version <= task.base_version) newest = of;
      }
      const bool keeps = task.kind == TaskKind::kTrain ? algorithm_.keeps_state : plan_->measures_state();
      EXPECT_EQ(task.state_of, keeps ? newest : "") << id << " began from version " << task.base_version;
    }
    CheckVersions(versions, models);
  }

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
      EXPECT_LE(std::ssize(rows), scenario_.server.clients_per_round);
      EXPECT_GE(std::ssize(rows), algorithm_.outlives_versions ? 1 : scenario_.server.min_reports);
      ASSERT_OK_AND_ASSIGN(auto aggregation, Aggregation::Create(spec));
      for (const ClientRoundRow& row : rows) {
        ASSERT_OK_AND_ASSIGN(const UpdateMessage update, ParseUpdate(trained_.at(row.task_id)));
        EXPECT_EQ(update.scalars.at("examples"), static_cast<double>(PixelExamples(row.client_id)));
        ASSERT_OK_AND_ASSIGN(Weights weights, WeightsOf(spec, update.scalars, {}));
        for (int64_t& weight : weights.parts) weight = algorithm_.by_examples ? PixelExamples(row.client_id) : 1;
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
      EXPECT_EQ(models[static_cast<size_t>(version)].digest, state.digest.Hex()) << "version " << version;
    }
  }

  FleetWorkshop& shop_;
  const TenthAlgorithm& algorithm_;
  const testing::TempFolder folder_{testing::TempFolder::Place::kMemory};
  std::mt19937 random_;
  bool may_stop_ = false;
  const Scenario scenario_;
  FleetWatch watch_;
  std::atomic<int64_t> now_ = 1;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<Coordinator> coordinator_;
  std::string run_id_;
  bool over_ = false;
  std::vector<Client> clients_{static_cast<size_t>(kFleet)};
  struct Sent {
    int64_t client;
    TaskId task;
    std::string update;
  };
  std::deque<Sent> old_;
  std::map<TaskId, Task> given_;
  std::map<TaskId, std::string> trained_;
  std::set<TaskId> accepted_, failed_;  // since the last version that a restart has left
  FleetCounts counts_;
  std::string story_;
};

// "17" or "1-100".
std::pair<uint32_t, uint32_t> SeedsAskedFor() {
  const char* const asked = std::getenv("RIVULET_SEEDS");
  if (asked == nullptr) return {1, 8};
  const std::string_view text = asked;
  const size_t dash = text.find('-');
  const auto number = [](std::string_view digits) {
    uint32_t value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
  };
  const uint32_t first = number(text.substr(0, dash));
  return {first, dash == text.npos ? first : number(text.substr(dash + 1))};
}

class ComeAndGoTest : public ::testing::TestWithParam<TenthAlgorithm> {};

TEST_P(ComeAndGoTest, TwentyClients_WhateverTheyDo_MakeVersionsOfWhatTheRowsSay) {
  FleetWorkshop shop;
  FleetCounts all;
  const auto [first, last] = SeedsAskedFor();
  for (uint32_t seed = first; seed <= last; ++seed) {
    SCOPED_TRACE(
        fmt::format("alone: RIVULET_SEEDS={} simulations_test --gtest_filter='*ComeAndGo*/{}'", seed, GetParam().name));
    FleetRun run(shop, GetParam(), seed);
    run.Go();
    if (HasFailure()) {
      if (first == last) fmt::print(stderr, "{}", run.story());
      return;
    }
    const FleetCounts& counts = run.counts();
    all.late += counts.late;
    all.restarts += counts.restarts;
    all.again += counts.again;
    all.dropped += counts.dropped;
    all.abandoned += counts.abandoned;
    all.duplicates += counts.duplicates;
    all.refused += counts.refused;
    all.kept += counts.kept;
    all.evaluations += counts.evaluations;
    all.boasts += counts.boasts;
  }
  RecordProperty("restarts", static_cast<int>(all.restarts));
  RecordProperty("abandoned", static_cast<int>(all.abandoned));
  RecordProperty("duplicates", static_cast<int>(all.duplicates));
  RecordProperty("refused", static_cast<int>(all.refused));
  RecordProperty("with_state", static_cast<int>(all.kept));
  RecordProperty("late", static_cast<int>(all.late));
  if (last < first + 7) return;  // too few to meet everything
  EXPECT_GT(all.restarts, 0);
  EXPECT_GT(all.again, 0);
  EXPECT_GT(all.dropped, 0);
  EXPECT_GT(all.duplicates, 0);
  EXPECT_GT(all.refused, 0);
  EXPECT_GT(all.evaluations, 0);
  EXPECT_EQ(all.kept > 0, GetParam().keeps_state);
  EXPECT_EQ(all.boasts > 0, GetParam().name == "dp_fedavg");
  EXPECT_EQ(all.late > 0, GetParam().outlives_versions);
}

// Otherwise a seed that fails could not be looked at.
TEST_P(ComeAndGoTest, OneSeedTwice_IsOneStory) {
  FleetWorkshop shop;
  std::vector<std::string> stories;
  for (const int time : {1, 2}) {
    SCOPED_TRACE(time);
    FleetRun run(shop, GetParam(), 4);
    run.Go();
    ASSERT_FALSE(HasFailure());
    stories.push_back(run.story());
  }
  EXPECT_TRUE(stories[0] == stories[1]) << "the longest beginning that both share: "
                                        << std::ranges::mismatch(stories[0], stories[1]).in1 - stories[0].begin()
                                        << " of " << stories[0].size() << " and " << stories[1].size() << " bytes";
}

INSTANTIATE_TEST_SUITE_P(All, ComeAndGoTest, ::testing::ValuesIn(testing::TenAlgorithms()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace rivulet
