// Admission and outcomes without rounds: a fake replaces the rounds and records the order of calls.
#include "coordinator/clients.h"

#include <gmock/gmock.h>

#include <atomic>
#include <semaphore>
#include <thread>

#include "faulty_sqlite.h"
#include "test_run.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Members are whoever joined; nothing is ever drawn.
class FakeRounds : public ClientRounds {
 public:
  bool Begin() override { return !over; }
  bool Over() override { return over; }
  bool Knows(const std::string& client_id) override {
    MutexLock lock(mutex);
    return vias.contains(client_id);
  }
  std::string ViaOf(const std::string& client_id) override {
    MutexLock lock(mutex);
    return vias.contains(client_id) ? vias.at(client_id) : "";
  }
  Status MayJoin(const std::string& client_id, int64_t others) override {
    MutexLock lock(mutex);
    if (std::ssize(vias) + others < room) return absl::OkStatus();
    return FailedPrecondition("there is no room for '{}'", client_id);
  }
  std::pair<int64_t, int64_t> NextDraw() override { return {1, 1}; }
  std::string Join(std::vector<std::string> client_ids, const std::string& via) override {
    MutexLock lock(mutex);
    for (const std::string& client_id : client_ids) {
      vias[client_id] = via;
      calls.push_back(fmt::format("join {} {}", client_id, via));
    }
    return "1 more client";
  }
  void LoseSite(const std::string& site) override {
    MutexLock lock(mutex);
    calls.push_back("lose " + site);
  }
  void Leave(const std::string& client_id, const std::string&) override {
    MutexLock lock(mutex);
    vias.erase(client_id);
  }
  int64_t Round() override { return 1; }
  void AwaitRecovered() override { ++awaited; }
  bool Answer(const PollRequest&, const std::set<std::string_view>& refused, PollReply* reply) override {
    if (recovering-- > 0) return false;
    reply->wait_ms = 7 + std::ssize(refused);
    return true;
  }
  bool Superseding(const TaskId& task) override { return task == superseding; }

  Mutex mutex;
  std::map<std::string, std::string> vias;
  std::vector<std::string> calls;
  int64_t room = 1000;
  std::atomic<bool> over = false;
  std::atomic<int> recovering = 0, awaited = 0;
  TaskId superseding;
};

class ClientsTest : public ::testing::Test {
 protected:
  ClientsTest() {
    InstallFaultySqlite(
        [](const std::string&) { return true; });  // before the history opens: one that is open keeps its files
    options_.scenario = TinyScenario(4, 2, 1);
    options_.observer.on_event = [this](const EventRow& event) { events_.push_back(event.message); };
    auto history = History::Open(folder_.db(), History::Access::kReadWrite);
    EXPECT_OK(history);
    RunRow run;
    run.run_id = run.name = "run";
    run.status = "running";
    run.plan_digest = parts_.plan_digest.Hex();
    run.created_at = Iso8601(0);
    ModelRow initial;
    initial.run_id = "run";
    initial.digest = Sha256Of("version 0").Hex();
    initial.path = "runs.sqlite.models/run/round-000000.safetensors";
    EXPECT_OK((*history)->AddRun(run, initial, {}));
    history_ = std::make_unique<RunHistory>(*std::move(history));
    told_ = std::make_unique<RunEvents>("run", options_.observer, *history_, clock_, [] {});
    Restart(false);
  }
  ~ClientsTest() override {
    InstallFaultySqlite([](const std::string&) { return true; });
  }
  void Restart(bool resumed) {
    clients_ =
        std::make_unique<Clients>("run", options_, parts_, resumed, *history_, clock_, *told_, distrusted_, rounds_);
  }
  static PollRequest Named(const std::string& aggregator, uint64_t session, std::vector<std::string> names) {
    PollRequest request{{.name = aggregator, .session = session}, {.version = "test"}};
    request.serves.kind = Serves::Kind::kNames;
    for (std::string& name : names) request.serves.names.push_back({std::move(name), {{"train", 5}}});
    return request;
  }
  static PendingAttempt Ended(const std::string& client_id, const TaskId& task, const std::string& site) {
    PendingAttempt pending;
    Lease lease;
    lease.client_id = client_id;
    lease.task = task;
    lease.site = site;
    lease.state = Lease::State::kFolded;
    pending.attempt.tasks.push_back({lease, {}});
    pending.end.status = "committed";
    return pending;
  }

  TestFolder folder_;
  CoordinatorOptions options_;
  RunParts parts_ = TinyParts(3, 2);
  int64_t now_ms_ = 1000;
  RunClock clock_{[this] { return now_ms_; }};
  std::vector<std::string> events_;
  std::unique_ptr<RunHistory> history_;
  std::unique_ptr<RunEvents> told_;
  DistrustedSites distrusted_;
  FakeRounds rounds_;
  std::unique_ptr<Clients> clients_;
};

TEST_F(ClientsTest, NewName_HasItsRowBeforeTheRoundsKnowIt) {
  ASSERT_OK(clients_->Poll(AskedBy("a")));
  ASSERT_OK(clients_->Poll(AskedBy("a")));
  EXPECT_THAT(rounds_.calls, ElementsAre("join a "));
  EXPECT_THAT(Value((*history_)->Clients()), SizeIs(1));
  told_->Drain();
  EXPECT_THAT(events_, ElementsAre("client 'a' has joined: 1 more client"));
}

TEST_F(ClientsTest, RowThatCannotBeWritten_MakesNoMember) {
  InstallFaultySqlite([](const std::string&) { return false; });
  EXPECT_FALSE(clients_->Poll(AskedBy("a")).ok());
  EXPECT_THAT(rounds_.calls, IsEmpty());
  InstallFaultySqlite([](const std::string&) { return true; });
  EXPECT_OK(clients_->Poll(AskedBy("a")));
  EXPECT_THAT(rounds_.calls, ElementsAre("join a "));
}

TEST_F(ClientsTest, WhoCannotTrain_IsTurnedAwayAndCounted) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(clients_->Poll(AskedBy("a", 0)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no examples")));
  }
  told_->Drain();
  EXPECT_THAT(events_, ElementsAre(HasSubstr("turned away: client 'a' has no examples"))) << "once a minute";
  events_.clear();
  clients_->TellRestOfRefusals();
  told_->Drain();
  EXPECT_THAT(events_, ElementsAre("2 more lines of this kind were left out"));
}

TEST_F(ClientsTest, FullPopulation_CountsNamesThatAreBeingWritten) {
  rounds_.room = 2;
  const auto reply = clients_->Poll(Named("hub", 1, {"a", "b", "c"}));
  ASSERT_OK(reply);
  EXPECT_THAT(reply->refused_names, SizeIs(1));
  EXPECT_EQ(reply->refused_names[0].name, "c");
  EXPECT_THAT(rounds_.calls, ElementsAre("join a hub", "join b hub"));
  EXPECT_EQ(reply->wait_ms, 8) << "the rounds hear who was refused";
}

// While one row is being written, others are gathered, and written together afterwards; a draw waits for all of them.
TEST_F(ClientsTest, SlowDisk_HoldsUpNeitherMembersNorTheRowsOfOthers) {
  ASSERT_OK(clients_->Poll(AskedBy("member")));
  std::atomic<bool> slow = true;
  std::binary_semaphore writing(0), go_on(0);
  InstallFaultySqlite([&](const std::string&) {
    if (slow.exchange(false)) {
      writing.release();
      go_on.acquire();
    }
    return true;
  });
  std::thread a([&] { EXPECT_OK(clients_->Poll(AskedBy("a"))); });
  writing.acquire();
  std::thread b([&] { EXPECT_OK(clients_->Poll(AskedBy("b"))); });
  EXPECT_OK(clients_->Poll(AskedBy("member")));
  std::atomic<bool> drawn = false;
  std::thread draw([&] { clients_->WhileNobodyJoins([&] { drawn = true; }); });
  EXPECT_FALSE(rounds_.Knows("a"));
  EXPECT_FALSE(drawn);
  go_on.release();
  for (std::thread* thread : {&a, &b, &draw}) thread->join();
  EXPECT_TRUE(drawn);
  EXPECT_TRUE(rounds_.Knows("a") && rounds_.Knows("b"));
}

TEST_F(ClientsTest, ClientOnAnotherWay_IsBelievedWhenItCallsItselfOrWasSilent) {
  ASSERT_OK(clients_->Poll(AskedBy("a")));
  const auto early = clients_->Poll(Named("hub", 1, {"a"}));
  ASSERT_OK(early);
  ASSERT_THAT(early->refused_names, SizeIs(1));
  EXPECT_THAT(early->refused_names[0].reason, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("served directly")));
  now_ms_ += 60'000;
  EXPECT_THAT(clients_->Poll(Named("hub", 1, {"a"}))->refused_names, IsEmpty());
  EXPECT_EQ(rounds_.ViaOf("a"), "hub");
  ASSERT_OK(clients_->Poll(AskedBy("a")));
  EXPECT_EQ(rounds_.ViaOf("a"), "");
}

TEST_F(ClientsTest, AggregatorThatIsStartedAgain_HasLostWhatItHad) {
  ASSERT_OK(clients_->Poll(Named("hub", 1, {})));
  EXPECT_TRUE(clients_->has_aggregators());
  ASSERT_OK(clients_->Poll(Named("hub", 2, {})));
  EXPECT_THAT(rounds_.calls, ElementsAre("lose hub"));
  EXPECT_THAT(clients_->Poll(Named("hub", 1, {})), StatusIs(absl::StatusCode::kPermissionDenied));
  distrusted_.Add({.name = "hub", .session = 2}, "its sums are wrong");
  EXPECT_THAT(clients_->Poll(Named("hub", 2, {})),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("its sums are wrong")));
  ASSERT_OK(clients_->Poll(Named("hub", 3, {})));
}

TEST_F(ClientsTest, RecoveredUpdates_AreCountedBeforeAnybodyIsAnswered) {
  rounds_.recovering = 2;
  ASSERT_OK(clients_->Poll(AskedBy("a")));
  EXPECT_EQ(rounds_.awaited, 3);
}

TEST_F(ClientsTest, Outcome_IsToldUntilThereIsAnotherAndDurableOnceWritten) {
  ASSERT_OK(clients_->Poll(AskedBy("a")));
  const PendingAttempt pending = Ended("a", "task 1", "a");
  clients_->Closed(pending, {{"a", {"task 1", TaskEnd::kFolded, "", false}}});
  for (int i = 0; i < 2; ++i) {
    const auto reply = clients_->Poll(AskedBy("a"));
    ASSERT_OK(reply);
    ASSERT_THAT(reply->outcomes, SizeIs(1));
    EXPECT_FALSE(reply->outcomes[0].durable);
  }
  clients_->Written(pending);
  EXPECT_TRUE(clients_->Poll(AskedBy("a"))->outcomes[0].durable);
  rounds_.superseding = "task 1";
  EXPECT_FALSE(clients_->Poll(AskedBy("a"))->outcomes[0].durable) << "a version is measured with its earlier state";
  EXPECT_EQ(clients_->ResultOf("a", "task 1", "gone")->kind, SubmitResult::Kind::kDuplicate);
  EXPECT_THAT(clients_->ResultOf("a", "task 0", "gone"), StatusIs(absl::StatusCode::kNotFound, "gone"));
}

TEST_F(ClientsTest, Aggregator_HearsOnceHowTheTasksOfItsClientsEnded) {
  ASSERT_OK(clients_->Poll(Named("hub", 1, {"a"})));
  clients_->Written(Ended("a", "task 1", "hub"));
  const auto reply = clients_->Poll(Named("hub", 1, {"a"}));
  ASSERT_OK(reply);
  ASSERT_THAT(reply->outcomes, SizeIs(1));
  EXPECT_TRUE(reply->outcomes[0].durable);
  EXPECT_THAT(clients_->Poll(Named("hub", 1, {"a"}))->outcomes, IsEmpty());
}

TEST_F(ClientsTest, Remove_OfAMember) {
  EXPECT_FALSE(clients_->Remove("a", "no reason"));
  ASSERT_OK(clients_->Poll(AskedBy("a")));
  EXPECT_TRUE(clients_->Remove("a", "no reason"));
  EXPECT_FALSE(rounds_.Knows("a"));
  ASSERT_OK(clients_->Poll(Named("hub", 1, {"a"})));
  EXPECT_EQ(rounds_.ViaOf("a"), "hub") << "nobody remembers the way that it had";
}

}  // namespace
}  // namespace rivulet
