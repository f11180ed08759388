// Tasks that outlive versions, of clients that come and go and send their updates when they have them; and coordinators
// that are started again while tasks are under way.
#include <gmock/gmock.h>

#include <atomic>
#include <random>
#include <set>
#include <thread>

#include "coordinator/coordinator.h"
#include "federated/aggregation/staleness.h"
#include "federated/server_optimizers/server_optimizer.h"
#include "test_run.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

constexpr int64_t kAsyncClients = 20, kAsyncElements = 3;

struct SentUpdate {
  std::vector<float> delta;
  int64_t examples = 0;
  int64_t base_version = 0;
};

// One run, from its first coordinator to the last.
class AsynchronousRun {
 public:
  explicit AsynchronousRun(uint32_t seed) : random_(seed) {
    options_.scenario = TinyScenario(kAsyncClients, 1 + Below(5), 6);
    options_.scenario.run.seed = seed;
    options_.scenario.run.durability = Below(2) == 0 ? "round" : "end";
    options_.scenario.server.min_clients = 8;
    options_.scenario.server.min_reports = 1;
    options_.db_path = folder_.db();
    options_.now_ms = [this] { return now_.load(); };
    parts_ = TinyParts(kAsyncElements, options_.scenario.server.clients_per_round);
    parts_.dial = {Dial::Base::kLatest, 1 + Below(9), Below(4), 0.5};
    parts_.aggregation.staleness_bits = kStalenessBits;
    if (Below(2) == 0) {
      parts_.aggregation.parts[0].weigh = "one";
      parts_.aggregation.parts[0].denominator.kind = Denominator::Kind::kTasks;
    }
  }

  void Go() {
    Start("");
    bool over = false;
    for (int step = 0; step < 20'000 && !over && !::testing::Test::HasFailure(); ++step) {
      now_ += Below(3000);
      if (Below(150) == 0 && restarts_ < 4) Restart();
      const std::string client = fmt::format("client-{:05}", Below(kAsyncClients));
      const auto mine = tasks_.find(client);
      if (mine != tasks_.end() && Below(3) == 0) {
        Work(client, mine->second);
        continue;
      }
      PollRequest request = AskedBy(client);
      if (mine != tasks_.end() && Below(8) > 0) request.working_on.push_back({mine->second.id, false});
      ASSERT_OK_AND_ASSIGN(const PollReply reply, coordinator_->Poll(request));
      over = reply.over.has_value();
      for (const TaskId& cancelled : reply.cancelled) {
        if (mine != tasks_.end() && mine->second.id == cancelled) tasks_.erase(client);
      }
      for (const Task& task : reply.tasks) Given(client, task);
      if (reply.tasks.empty()) std::this_thread::yield();
    }
    ASSERT_TRUE(over);
    ASSERT_OK(coordinator_->Wait());
    coordinator_.reset();
    Check();
  }
  int64_t late() const { return late_; }
  int64_t restarts() const { return restarts_; }
  int64_t offered_again() const { return offered_again_; }
  int64_t dropped() const { return dropped_; }

 private:
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint32_t>(n)); }

  void Start(const std::string& resume) {
    options_.resume = resume;
    auto created = CreateCoordinator(options_, parts_);
    ASSERT_OK(created);
    coordinator_ = *std::move(created);
  }

  // A task keeps its name and its base, whoever asks for it, and however often.
  void Given(const std::string& client, const Task& task) {
    const auto [known, fresh] = bases_.emplace(task.id, task.base_version);
    ASSERT_EQ(known->second, task.base_version) << task.id;
    tasks_[client] = task;
  }

  void Work(const std::string& client, Task task) {
    if (Below(15) == 0) {
      ASSERT_OK(coordinator_->Fail(As(client), {.task = task.id, .sentence = "no"}));
      tasks_.erase(client);
      return;
    }
    // A task that has lapsed, been dropped or was lost in a restart may start from a version that is gone.
    auto reader = coordinator_->Fetch(As(client), task.input("model")->id, 0);
    if (absl::IsNotFound(reader.status())) {
      tasks_.erase(client);
      return;
    }
    ASSERT_OK(reader);
    ASSERT_OK_AND_ASSIGN(const std::string bytes, ReadToEnd(**reader));
    ASSERT_OK_AND_ASSIGN(const auto base, ModelFromSafetensors(parts_.layout, bytes));
    SentUpdate update{FakeDelta(task, *base), 10 + client.back() - '0', task.base_version};
    const auto result = Send(*coordinator_, client, task.id, MakeUpdate(update.delta, update.examples));
    if (absl::IsUnavailable(result.status())) return;  // the next version is full: asked again later
    if (absl::IsNotFound(result.status())) {
      tasks_.erase(client);
      return;
    }
    ASSERT_OK(result);
    sent_[task.id] = std::move(update);
    tasks_.erase(client);
  }

  // What was under way when the last durable version was made is under way again.
  void Restart() {
    ++restarts_;
    const std::string run_id = coordinator_->run_id();
    coordinator_->Stop();
    (void)coordinator_->Wait();
    coordinator_.reset();
    std::set<TaskId> ended;
    int64_t made = 0;
    {
      ASSERT_OK_AND_ASSIGN(const auto history, History::Open(folder_.db(), History::Access::kReadOnly));
      const auto rows = Value(history->ClientRounds(run_id));
      for (const ClientRoundRow& row : rows) ended.insert(row.task_id);
      const auto rounds = Value(history->Rounds(run_id));
      for (const RoundRow& round : rounds) made = std::max(made, round.round);
    }
    now_ = Below(1000) + 1;
    Start("latest");
    if (coordinator_->already_finished()) return;
    for (auto& [client, task] : std::map<std::string, Task>(tasks_)) {
      if (TaskNameOf(task.id, run_id)->round > made || ended.contains(task.id)) {
        tasks_.erase(client);
        continue;
      }
      ASSERT_OK_AND_ASSIGN(const PollReply reply, coordinator_->Poll(AskedBy(client)));
      ASSERT_EQ(reply.tasks.size(), 1u) << task.id << " is forgotten: " << reply.awaited.sentence;
      EXPECT_EQ(reply.tasks[0].id, task.id);
      EXPECT_EQ(reply.tasks[0].base_version, task.base_version);
      ++offered_again_;
    }
  }

  // From the rows and what clients have sent each version comes out again, with the weights that the plan says.
  void Check() {
    ASSERT_OK_AND_ASSIGN(const auto history, History::Open(folder_.db(), History::Access::kReadOnly));
    ASSERT_OK_AND_ASSIGN(const RunRow run, history->ResolveRun("latest"));
    EXPECT_EQ(run.status, "finished");
    const auto rows = Value(history->ClientRounds(run.run_id));
    const auto models = Value(history->Models(run.run_id));
    std::map<int64_t, std::vector<ClientRoundRow>> versions;
    std::set<TaskId> once;
    for (const ClientRoundRow& row : rows) {
      EXPECT_TRUE(once.insert(row.task_id).second) << row.task_id;
      EXPECT_EQ(row.base_round, bases_.contains(row.task_id) ? bases_.at(row.task_id) : row.base_round);
      dropped_ += row.status == "dropped";
      if (row.status != "folded") continue;
      EXPECT_LE(row.staleness.value_or(-1), parts_.dial.max_staleness);
      EXPECT_GE(row.staleness.value_or(-1), 0);
      late_ += *row.staleness > 0;
      versions[*row.committed_round].push_back(row);
    }
    ASSERT_EQ(std::ssize(models), options_.scenario.run.rounds + 1);
    ASSERT_OK_AND_ASSIGN(const auto sgd, ServerOptimizer::Create({"sgd"}));
    ASSERT_OK_AND_ASSIGN(ServerState state, FirstState(*parts_.initial_model(), *sgd));
    for (const auto& [version, tasks] : versions) {
      EXPECT_LE(std::ssize(tasks), parts_.aggregation.updates_per_version);
      auto aggregation = Aggregation::Create(parts_.aggregation);
      ASSERT_OK(aggregation);
      for (const ClientRoundRow& row : tasks) {
        const SentUpdate& update = sent_.at(row.task_id);
        const PartView part{.name = "delta", .data = std::as_bytes(std::span(update.delta))};
        const Scalars declared = {{"examples", static_cast<double>(update.examples)}};
        ASSERT_OK_AND_ASSIGN(const Weights weights, WeightsOf(parts_.aggregation, declared, {}));
        EXPECT_EQ(update.base_version, row.base_round);
        ASSERT_OK((*aggregation)->Take({row.task_id, row.base_round, {&part, 1}, declared}, weights));
      }
      ASSERT_OK_AND_ASSIGN(const ServerInput input,
                           std::move(**aggregation).Finish(StalenessOf(version, parts_.dial.staleness_exponent)));
      ASSERT_OK_AND_ASSIGN(state, NextState(state, *sgd, 1, input.parts[0].mean));
      EXPECT_EQ(models[static_cast<size_t>(version)].digest, state.digest.Hex()) << version;
    }
  }

  const TestFolder folder_;
  std::mt19937 random_;
  std::atomic<int64_t> now_ = 1;
  CoordinatorOptions options_;
  RunParts parts_;
  std::unique_ptr<Coordinator> coordinator_;
  std::map<std::string, Task> tasks_;  // in hand, by client
  std::map<TaskId, int64_t> bases_;
  std::map<TaskId, SentUpdate> sent_;
  int64_t late_ = 0, restarts_ = 0, offered_again_ = 0, dropped_ = 0;
};

TEST(AsynchronousTest, ClientsThatComeAndGo_MakeVersionsOfWhatTheRowsSay) {
  int64_t late = 0, restarts = 0, again = 0, dropped = 0;
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    AsynchronousRun run(seed);
    run.Go();
    if (::testing::Test::HasFailure()) return;
    late += run.late();
    restarts += run.restarts();
    again += run.offered_again();
    dropped += run.dropped();
  }
  EXPECT_GT(late, 100);
  EXPECT_GT(restarts, 30);
  EXPECT_GT(again, 30);
  EXPECT_GT(dropped, 30);
}

}  // namespace
}  // namespace rivulet
