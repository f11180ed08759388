// One client that cannot take part, among others that can: the run finishes without it, at once and without losses.
#include <chrono>
#include <thread>

#include "coordinator/coordinator.h"
#include "test_run.h"

namespace rivulet {
namespace {

constexpr int64_t kBadClientElements = 3;
constexpr char kBad[] = "client-00000";

struct Fault {
  const char* name;
  TaskEnd end;
  std::function<void(Coordinator&, const std::string&, const Task&)> act;  // null: it does nothing
  // From when on it is not heard of any more.
  enum class Silent { kNever, kOnceItHasATask, kOnceItHasJoined } silent = Silent::kNever;
};

// Every client polls in turn and does at once what it is given, on a clock that goes on while nothing happens.
class Federation {
 public:
  Federation(int64_t clients, int64_t cohort) : clients_(Names(clients)) {
    options_.scenario = TinyScenario(clients, cohort, 3);
    options_.db_path = folder_.db();
    options_.now_ms = [this] { return now_ms_.load(); };
    options_.observer.on_action = [this](const std::string& action) {
      if (action.starts_with("commit") || action.starts_with("abandon")) committing_ = true;
    };
    options_.observer.on_round = [this](const RoundReport&) { committing_ = false; };
    coordinator_ = *CreateCoordinator(options_, TinyParts(kBadClientElements, cohort));
  }
  // Until the run is over for everybody who asks.
  void Run(const Fault& fault) {
    while (!clients_.empty() && seconds() < kGiveUpSeconds) {
      bool idle = true;
      for (const std::string& name : std::vector<std::string>(clients_)) {
        const PollReply reply = Value(coordinator_->Poll(AskedBy(name)));
        if (!reply.tasks.empty()) idle = false;
        const bool silent = fault.silent == Fault::Silent::kOnceItHasJoined ||
                            (fault.silent == Fault::Silent::kOnceItHasATask && !idle);
        if (reply.over || (name == kBad && silent)) {
          std::erase(clients_, name);
          continue;
        }
        for (const Task& task : reply.tasks) {
          if (name != kBad) {
            EXPECT_OK(FakeFleet::Work(*coordinator_, name, task));
          } else if (fault.act) {
            fault.act(*coordinator_, name, task);
          }
        }
      }
      if (!idle) continue;
      std::this_thread::sleep_for(std::chrono::microseconds(200));  // for whoever commits
      if (!committing_) now_ms_ += 500;
    }
  }
  Status Wait() { return coordinator_->Wait(); }
  double seconds() const { return static_cast<double>(now_ms_ - kStartMs) / 1000; }
  std::vector<ClientReliabilityRow> Clients() { return Value(Rows()->ClientReliability(coordinator_->run_id())); }
  std::vector<ClientRoundRow> Tasks() { return Value(Rows()->ClientRounds(coordinator_->run_id())); }

 private:
  static constexpr int64_t kStartMs = 1'738'333'530'123;
  static constexpr double kGiveUpSeconds = 10'000;
  std::unique_ptr<History> Rows() { return *History::Open(options_.db_path, History::Access::kReadOnly); }

  TestFolder folder_;
  std::atomic<int64_t> now_ms_ = kStartMs;
  std::atomic<bool> committing_ = false;
  std::vector<std::string> clients_;
  CoordinatorOptions options_;
  std::unique_ptr<Coordinator> coordinator_;
};

TEST(OneBadClientTest, WhateverIsWrongWithIt_RunFinishesAndTheInnocentStayReliable) {
  const Fault faults[] = {
      {"over max_weight", TaskEnd::kRefused,
       [](Coordinator& c, const std::string& name, const Task& task) {
         EXPECT_OK(Send(c, name, task.id, MakeUpdate({1, 1, 1}, 65'537)));
       }},
      {"diverged", TaskEnd::kRefused,
       [](Coordinator& c, const std::string& name, const Task& task) {
         EXPECT_OK(Send(c, name, task.id, MakeUpdate({1, std::nanf(""), 1}, 5)));
       }},
      {"failed", TaskEnd::kFailed,
       [](Coordinator& c, const std::string& name, const Task& task) {
         EXPECT_OK(c.Fail(As(name), {.task = task.id, .code = TaskFailure::Code::kBadExample}));
       }},
      {"dead", TaskEnd::kDropped, nullptr, Fault::Silent::kOnceItHasATask},
      {"absent", TaskEnd::kDropped, nullptr, Fault::Silent::kOnceItHasJoined},
  };
  for (const Fault& fault : faults) {
    for (const int64_t cohort : {1, 2, 3, 4, 5}) {
      // As many clients as are asked, so that nobody can take its place, and one more.
      for (const int64_t clients : {cohort, cohort + 1}) {
        if (clients == 1) continue;  // nobody is innocent
        SCOPED_TRACE(fmt::format("{}, {} of {} clients", fault.name, cohort, clients));
        Federation federation(clients, cohort);
        federation.Run(fault);
        ASSERT_OK(federation.Wait());
        // Who is silent costs one lease of 60 s, and not a deadline of 600 s in every round.
        EXPECT_LT(federation.seconds(), fault.end == TaskEnd::kDropped ? 180 : 60);
        int64_t bad = 0;
        for (const ClientRoundRow& row : federation.Tasks()) {
          EXPECT_EQ(row.attempt, 1);
          if (row.client_id != kBad) continue;
          EXPECT_EQ(row.status, Name(fault.end));
          ++bad;
        }
        if (clients == cohort) {
          EXPECT_EQ(bad, fault.end == TaskEnd::kDropped ? 1 : 3) << "who is absent is not asked again";
        }
        for (const ClientReliabilityRow& client : federation.Clients()) {
          EXPECT_EQ(client.reliability, client.client_id == kBad ? 0 : 1) << client.client_id;
        }
      }
    }
  }
}

// Nobody else is there to go on with: it is asked again, less and less often, and what it says stands in the rows.
TEST(OneBadClientTest, TheOnlyClient_IsAskedAgainUntilItCan) {
  int failures = 3;
  const Fault mended = {"failed", TaskEnd::kFailed, [&](Coordinator& c, const std::string& name, const Task& task) {
                          if (failures-- > 0) {
                            EXPECT_OK(c.Fail(As(name), {.task = task.id, .sentence = "no disk"}));
                          } else {
                            EXPECT_OK(FakeFleet::Work(c, name, task));
                          }
                        }};
  Federation federation(1, 1);
  federation.Run(mended);
  ASSERT_OK(federation.Wait());
  EXPECT_GE(federation.seconds(), 1 + 2 + 4);
  const std::vector<ClientRoundRow> tasks = federation.Tasks();
  ASSERT_EQ(tasks.size(), 6u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(tasks[i].error, "no disk");
}

}  // namespace
}  // namespace rivulet
