// One run that clients, sites and operators call at once, each on threads of their own and in an order drawn from a
// seed. Whatever the order, every call has an answer that its caller may expect, and the run ends; where all clients
// are in every version, the versions are those of a run that one thread calls. The thread sanitizer runs over it.
#include <gmock/gmock.h>

#include <atomic>
#include <random>
#include <set>
#include <thread>

#include "coordinator/coordinator.h"
#include "federated/updates/task_records.h"
#include "test_run.h"
#include "tests/testing/partial_bytes.h"
#include "tests/testing/record_of.h"

namespace rivulet {
namespace {

constexpr int64_t kThreadedElements = 5;

// What a caller may hear that is late, early, or not concerned.
bool IsExpected(const Status& status) {
  const std::set<absl::StatusCode> codes = {absl::StatusCode::kOk, absl::StatusCode::kNotFound,
                                            absl::StatusCode::kUnavailable, absl::StatusCode::kFailedPrecondition};
  return codes.contains(status.code());
}

class CountingListener : public NewsListener {
 public:
  void OnNews(const std::string&) override { ++news; }
  std::atomic<int64_t> news = 0;
};

// A site of many names that sums its clients' updates and submits a sum when it is asked for. Of a sum that has a
// cancelled task nothing can be taken out: the site gives all of it up.
class Site {
 public:
  Site(Coordinator& coordinator, AggregationSpec spec, std::string name, bool in_place)
      : coordinator_(coordinator), spec_(std::move(spec)), caller_(As(name)), in_place_(in_place) {}

  void RunUntilOver() {
    while (!coordinator_.over()) {
      PollRequest request;
      request.caller = caller_;
      request.serves.kind = Serves::Kind::kAny;
      request.want = 3;
      for (const auto& [gather, open] : open_) {
        for (const TaskRecord& record : open.records) request.working_on.push_back({record.task, true});
      }
      const StatusOr<PollReply> reply = coordinator_.Poll(request);
      ASSERT_OK(reply);
      if (reply->over) return;
      if (!reply->cancelled.empty()) {
        GiveUp();
        continue;
      }
      for (const HandOver& wanted : reply->hand_over) Submit(wanted.gather);
      for (const Task& task : reply->tasks) Work(task);
      if (reply->tasks.empty()) coordinator_.AwaitWork(caller_, reply->epoch, 2);
    }
  }

 private:
  struct Open {
    std::unique_ptr<Aggregation> aggregation;
    int64_t base_version = 0;
    std::vector<TaskRecord> records;
  };

  void GiveUp() {
    open_.clear();
    coordinator_.LoseSite(caller_.name);
  }

  void Work(const Task& task) {
    const auto base = coordinator_.FetchInPlace(caller_, task.input("model")->id);
    if (!base.ok()) return GiveUp();  // its round was over before this thread came to it
    const std::vector<float> delta = FakeDelta(task, **base);
    const Scalars declared = {{"examples", 10.0 + (task.client_id.back() - '0')}, {"steps", 6}, {"train_loss", 0.5}};
    Open& open = open_[task.gather];
    if (open.aggregation == nullptr) open.aggregation = *Aggregation::Create(spec_);
    open.base_version = task.base_version;
    const PartView part{.name = "delta", .data = std::as_bytes(std::span(delta))};
    TaskRecord record = RecordOf(task.id, declared);
    const auto taken =
        open.aggregation->Take({task.id, task.base_version, {&part, 1}, declared}, *WeightsOf(spec_, declared, {}));
    ASSERT_OK(taken);
    record.update_norm = taken->norm;
    open.records.push_back(std::move(record));
  }

  void Submit(uint64_t gather) {
    const auto found = open_.find(gather);
    if (found == open_.end()) return GiveUp();
    const Open open = std::move(open_.extract(found).mapped());
    Partial partial = open.aggregation->Extract(open.base_version);
    if (in_place_) {
      EXPECT_TRUE(IsExpected(coordinator_.SubmitInPlace(caller_, std::move(partial), open.records).status()));
      return;
    }
    const std::string bytes = WriteTaskRecords(open.records) + testing::BytesOf(spec_, partial);
    Submission submission;
    submission.kind = Submission::Kind::kPartial;
    submission.gather = gather;
    submission.bytes = std::ssize(bytes);
    EXPECT_TRUE(IsExpected(SendInBlocks(coordinator_, caller_, submission, bytes, nullptr).status()));
  }

  Coordinator& coordinator_;
  const AggregationSpec spec_;
  const Caller caller_;
  const bool in_place_;
  std::map<uint64_t, Open> open_;
};

class ManyThreadsTest : public ::testing::TestWithParam<int> {
 protected:
  ManyThreadsTest() {
    options_.db_path = folder_.db();
    options_.enforce_deadline = false;
    // Callbacks come one at a time, whoever runs them.
    options_.observer.on_event = [this](const EventRow&) { ++callbacks_; };
    options_.observer.on_round = [this](const RoundReport& report) {
      ++callbacks_;
      if (report.status != "committed") return;
      EXPECT_EQ(report.round, ++rounds_told_);
    };
  }
  void Start(RunParts parts) {
    parts_ = std::move(parts);
    auto created = CreateCoordinator(options_, parts_);
    ASSERT_OK(created);
    coordinator_ = *std::move(created);
    coordinator_->SetListener(&listener_);
  }
  std::mt19937_64 DrawsOf(int thread) const {
    return std::mt19937_64(static_cast<uint64_t>(GetParam() * 100 + thread));
  }
  template <typename Act>
  void Add(Act act) {
    threads_.emplace_back([this, act, draws = DrawsOf(static_cast<int>(threads_.size()))]() mutable { act(draws); });
  }

  // Any of `names` polls and does its tasks. Now and then an upload is cut off in the middle, and sent by a later poll.
  void AddClients(std::vector<std::string> names, double failing = 0) {
    Add([this, names = std::move(names), failing](std::mt19937_64& draws) {
      std::uniform_real_distribution<double> chance;
      while (!coordinator_->over()) {
        const std::string& name = names[draws() % names.size()];
        const StatusOr<PollReply> reply = coordinator_->Poll(AskedBy(name));
        ASSERT_TRUE(IsExpected(reply.status())) << reply.status();
        if (!reply.ok()) continue;
        if (reply->over) {
          EXPECT_TRUE(coordinator_->over()) << reply->over->sentence;
          return;
        }
        for (const Task& task : reply->tasks) {
          if (chance(draws) < failing) {
            EXPECT_TRUE(IsExpected(coordinator_->Fail(As(name), {.task = task.id})));
          } else if (chance(draws) < 0.2) {
            const std::string update = MakeUpdate(std::vector<float>(kThreadedElements, 1), 5);
            const auto writer = coordinator_->Submit(As(name), Announce(task.id, update));
            EXPECT_TRUE(IsExpected(writer.status())) << writer.status();
            if (writer.ok() && (*writer)->decided() == nullptr && (*writer)->Resume(0).ok()) {
              (void)(*writer)->Write(std::as_bytes(std::span(update)).first(7));
            }
          } else {
            const Status worked = FakeFleet::Work(*coordinator_, name, task).status();
            EXPECT_TRUE(IsExpected(worked) || absl::IsAborted(worked)) << worked;
          }
        }
        if (reply->tasks.empty()) std::this_thread::yield();
      }
    });
  }
  void AddSite(const std::string& name, bool in_place) {
    Add([this, name, in_place](std::mt19937_64&) {
      Site(*coordinator_, parts_.aggregation, name, in_place).RunUntilOver();
    });
  }
  void AddOperator(std::vector<std::string> sites) {
    Add([this, sites = std::move(sites)](std::mt19937_64& draws) {
      while (!coordinator_->over()) {
        switch (draws() % 5) {
          case 0:
            coordinator_->Steer(Steering::kPause);
            coordinator_->Steer(Steering::kResume);
            break;
          case 1:
            if (!sites.empty()) coordinator_->LoseSite(sites[draws() % sites.size()]);
            break;
          case 2:
            EXPECT_EQ(coordinator_->Standing().state.run_id, coordinator_->run_id());
            break;
          case 3:
            EXPECT_NE(coordinator_->model(), nullptr);
            break;
          default:
            EXPECT_FALSE(coordinator_->stopped());
        }
        std::this_thread::sleep_for(std::chrono::microseconds(draws() % 3000));
      }
    });
  }
  Status Join() {
    for (std::thread& thread : threads_) thread.join();
    const Status ended = coordinator_->Wait();
    coordinator_->SetListener(nullptr);
    return ended;
  }

  TestFolder folder_;
  CoordinatorOptions options_;
  RunParts parts_;
  CountingListener listener_;
  int64_t callbacks_ = 0, rounds_told_ = 0;
  std::unique_ptr<Coordinator> coordinator_;
  std::vector<std::thread> threads_;
};

TEST_P(ManyThreadsTest, AllClientsInEveryVersion_VersionsAreThoseOfOneThread) {
  constexpr int64_t kClients = 8, kRounds = 40;
  options_.scenario = TinyScenario(kClients, kClients, kRounds);
  TestFolder other;
  CoordinatorOptions quiet;
  quiet.scenario = options_.scenario;
  quiet.db_path = other.db();
  const auto expected = RunTiny(quiet, TinyParts(kThreadedElements, kClients), kClients);
  ASSERT_OK(expected);

  options_.population = NumberedPopulation(kClients);
  Start(TinyParts(kThreadedElements, kClients));
  AddClients(Names(kClients));
  AddClients(Names(kClients));
  AddSite("worker 0", true);
  AddSite("site 1", false);
  AddOperator({"worker 0", "site 1"});
  ASSERT_OK(Join());
  EXPECT_EQ(Value(DigestsOfRun(folder_.db(), coordinator_->run_id())), *expected);
  coordinator_.reset();
  EXPECT_EQ(rounds_told_, kRounds);
  EXPECT_GT(listener_.news, 0);
}

// Names come one after the other on several threads, some of them through an aggregator; tasks fail, and an operator
// sends clients away, who come again.
TEST_P(ManyThreadsTest, NamesComeAndGo_RunEndsWithAllItsRounds) {
  constexpr int64_t kRounds = 30;
  options_.scenario = TinyScenario(0, 3, kRounds);
  options_.scenario.server.min_clients = 4;
  options_.scenario.server.min_reports = 1;
  Start(TinyParts(kThreadedElements, 3));
  AddClients(Names(6), 0.02);
  AddClients({"a0", "a1", "a2", "client-00001"}, 0.02);
  Add([this](std::mt19937_64& draws) {
    const std::vector<std::string> names = {"b0", "b1", "b2"};
    while (!coordinator_->over()) {
      PollRequest request;
      request.caller = {.name = "aggregator", .session = 1};
      request.serves.kind = Serves::Kind::kNames;
      request.want = 4;
      for (const std::string& name : names) request.serves.names.push_back({name, {{"train", 5}}});
      const StatusOr<PollReply> reply = coordinator_->Poll(request);
      ASSERT_OK(reply);
      if (reply->over) return;
      for (const Task& task : reply->tasks) {
        const std::string update = MakeUpdate(std::vector<float>(kThreadedElements, 1), 5);
        EXPECT_TRUE(IsExpected(draws() % 4 == 0 ? coordinator_->Fail(request.caller, {.task = task.id})
                                                : Send(*coordinator_, "aggregator", task.id, update).status()));
      }
      if (reply->tasks.empty()) coordinator_->AwaitWork(request.caller, reply->epoch, 1);
    }
  });
  Add([this](std::mt19937_64& draws) {
    for (int i = 0; i < 5 && !coordinator_->over(); ++i) {
      std::this_thread::sleep_for(std::chrono::microseconds(draws() % 4000));
      (void)coordinator_->Remove(fmt::format("client-0000{}", draws() % 6), "the test says so");
    }
  });
  AddOperator({});
  ASSERT_OK(Join());
  EXPECT_EQ(Value(DigestsOfRun(folder_.db(), coordinator_->run_id())).size(), static_cast<size_t>(kRounds));
  coordinator_.reset();
  EXPECT_EQ(rounds_told_, kRounds);
  EXPECT_GT(callbacks_, kRounds);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ManyThreadsTest, ::testing::Values(1, 2, 3));

}  // namespace
}  // namespace rivulet
