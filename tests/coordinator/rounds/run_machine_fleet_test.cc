// Rounds on a fleet's clock: selection, late and lost clients, and the time of the version.
#include <map>
#include <set>

#include "coordinator/rounds/run_machine.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr VirtualTime kSecond = 1'000'000;

// Client i takes (i + 1) seconds, whatever it is asked; some are lost after half of that, some are away until a time.
class FewDevices final : public Fleet {
 public:
  std::set<std::string> lost;
  std::map<std::string, VirtualTime> back;
  VirtualTime version = 0;

  bool IsThere(const std::string& client_id, VirtualTime at) const override {
    const auto away = back.find(client_id);
    return away == back.end() || at >= away->second;
  }
  Course CourseOf(const std::string& client_id, int64_t, uint16_t, VirtualTime at) const override {
    const VirtualTime takes = (*NumberOf(client_id) + 1) * kSecond;
    return lost.contains(client_id) ? Course{at + takes / 2, true} : Course{at + takes, false};
  }
  VirtualTime VersionTime(int64_t round) const override { return version * round; }
  std::optional<VirtualTime> NextBack(VirtualTime at) const override {
    std::optional<VirtualTime> next;
    for (const auto& [client_id, when] : back)
      if (when > at && (!next || when < *next)) next = when;
    return next;
  }
};

class RunMachineFleetTest : public ::testing::Test {
 protected:
  RunMachineFleetTest() {
    rules_.run_id = "run";
    rules_.rounds = 2;
    rules_.policy = {4, 2, RoundPolicy::BasePolicy::kCommitted, 0, true};
    rules_.min_reports = 1;
    rules_.fleet = devices_;
    rules_.fleet_lease = 10 * kSecond;
  }

  void Start(int64_t clients) {
    auto created = RunMachine::Create(rules_, {.population = NumberedPopulation(clients)});
    ASSERT_OK(created);
    machine_ = *std::move(created);
    Feed(Tick{});
  }
  // A site that takes whatever is due, one after the other, and brings it at once; until a version is made, or none is.
  void Work() {
    for (int step = 0; step < 100 && !commit_ && !abandon_ && !machine_->over(); ++step) {
      std::vector<TaskId> taken;
      for (const Action& action : Feed(SitePolled{"site", SitePolled::Serves::kAny, {}, 1})) {
        if (const auto* offer = std::get_if<Offer>(&action); offer != nullptr && offer->again)
          taken.push_back(offer->lease.task);
      }
      for (const TaskId& task : taken) {
        given_.insert(machine_->FindLease(task)->client_id);
        Feed(StepReported{"site", task});
        Feed(StageDone{task, true, ""});
        Feed(FoldDone{task, true, ""});
      }
    }
  }
  std::vector<Action> Feed(const Event& event) {
    std::vector<Action> actions = machine_->On(event, 1);
    for (const Action& action : actions) {
      if (const auto* commit = std::get_if<Commit>(&action)) {
        commit_ = *commit;
        leases_ = machine_->leases();
      } else if (const auto* abandon = std::get_if<Abandon>(&action)) {
        abandon_ = *abandon;
        leases_ = machine_->leases();
      }
    }
    return actions;
  }
  // The names of those whose lease ended so, with why.
  std::map<std::string, std::string> Ended(Lease::State state) const {
    std::map<std::string, std::string> ended;
    for (const Lease& lease : leases_)
      if (lease.state == state) ended[lease.client_id] = lease.reason;
    return ended;
  }

  std::shared_ptr<FewDevices> devices_ = std::make_shared<FewDevices>();
  RunRules rules_;
  std::optional<RunMachine> machine_;
  std::optional<Commit> commit_;
  std::optional<Abandon> abandon_;
  std::vector<Lease> leases_;
  std::set<std::string> given_;
};

TEST_F(RunMachineFleetTest, FirstOfThoseAsked_MakeTheVersionAndTheOthersAreLate) {
  Start(4);
  Work();
  ASSERT_TRUE(commit_);
  EXPECT_EQ(commit_->at, 2 * kSecond) << "when the second came";
  EXPECT_THAT(given_, UnorderedElementsAre("client-00000", "client-00001")) << "nobody trains what comes too late";
  EXPECT_THAT(Ended(Lease::State::kDropped),
              UnorderedElementsAre(::testing::Pair("client-00002", EnoughWithout(TaskKind::kTrain)),
                                   ::testing::Pair("client-00003", EnoughWithout(TaskKind::kTrain))));
  // The next round begins when this one was made.
  commit_.reset();
  Feed(CommitDone{});
  Work();
  ASSERT_TRUE(commit_);
  EXPECT_EQ(commit_->at, 4 * kSecond);
}

// Two seconds each for the second of the devices to come, one for the first version and two for the second.
TEST_F(RunMachineFleetTest, WhatAVersionTakesTheServer_IsBeforeTheNextRound) {
  devices_->version = kSecond;
  Start(4);
  Work();
  ASSERT_TRUE(commit_);
  EXPECT_EQ(commit_->at, 3 * kSecond);
  commit_.reset();
  Feed(CommitDone{});
  Work();
  ASSERT_TRUE(commit_);
  EXPECT_EQ(commit_->at, 7 * kSecond);
}

TEST_F(RunMachineFleetTest, LostDevice_IsMissedAfterALeaseAndReplaced) {
  rules_.policy = {2, 2, RoundPolicy::BasePolicy::kCommitted, 0, true};
  devices_->lost = {"client-00000", "client-00001"};
  Start(4);
  Work();
  ASSERT_TRUE(commit_);
  const auto dropped = Ended(Lease::State::kDropped);
  ASSERT_FALSE(dropped.empty()) << "seed 1 draws one of them";
  for (const auto& [client_id, reason] : dropped) {
    EXPECT_TRUE(devices_->lost.contains(client_id));
    EXPECT_THAT(reason, HasSubstr("disconnected and was silent for 10 s"));
  }
  EXPECT_GT(commit_->at, 10 * kSecond);
  EXPECT_EQ(commit_->tasks.size(), 2);
}

TEST_F(RunMachineFleetTest, Deadline_ClosesARoundWithWhatHasComeByThen) {
  rules_.policy = {4, 4, RoundPolicy::BasePolicy::kCommitted, 0, true};
  rules_.fleet_deadline = 5 * kSecond / 2;
  Start(4);
  Work();
  ASSERT_TRUE(commit_);
  EXPECT_EQ(commit_->at, 5 * kSecond / 2);
  EXPECT_EQ(commit_->tasks.size(), 2);
  for (const auto& [client_id, reason] : Ended(Lease::State::kDropped))
    EXPECT_EQ(reason, "no update arrived before the deadline of 2.5 s") << client_id;
}

TEST_F(RunMachineFleetTest, DeadlineWithTooFew_GivesTheAttemptUpAndTheNextBeginsThen) {
  rules_.policy = {4, 4, RoundPolicy::BasePolicy::kCommitted, 0, true};
  rules_.min_reports = 3;
  rules_.fleet_deadline = 5 * kSecond / 2;
  rules_.max_attempts = 2;
  Start(4);
  Work();
  ASSERT_TRUE(abandon_);
  EXPECT_THAT(abandon_->reason, HasSubstr("2 of 3 updates that round 1 needs"));
  abandon_.reset();
  Feed(CommitDone{});
  Work();
  ASSERT_TRUE(abandon_);
  EXPECT_TRUE(abandon_->last);
}

TEST_F(RunMachineFleetTest, NobodyInTimeForTheDeadline_GivesTheAttemptUpAtOnce) {
  rules_.fleet_deadline = kSecond / 2;
  Start(4);
  EXPECT_TRUE(abandon_);
}

TEST_F(RunMachineFleetTest, WhoIsAway_IsNotAskedAndWaitedForWhereTooFewAreThere) {
  rules_.min_reports = 2;
  devices_->back = {{"client-00000", 100 * kSecond}, {"client-00001", 400 * kSecond}, {"client-00002", 500 * kSecond}};
  Start(4);
  Work();
  ASSERT_TRUE(commit_);
  EXPECT_EQ(commit_->at, 104 * kSecond) << "client 3 was alone until client 0 came back, and takes four seconds";
  EXPECT_THAT(given_, UnorderedElementsAre("client-00000", "client-00003"));
}

TEST_F(RunMachineFleetTest, NobodyEverBack_EndsTheRunWithASentence) {
  rules_.min_reports = 2;
  class Nobody final : public Fleet {
    bool IsThere(const std::string&, VirtualTime) const override { return false; }
    Course CourseOf(const std::string&, int64_t, uint16_t, VirtualTime at) const override { return {at, true}; }
    std::optional<VirtualTime> NextBack(VirtualTime) const override { return std::nullopt; }
  };
  rules_.fleet = std::make_shared<Nobody>();
  Start(4);
  EXPECT_EQ(machine_->phase(), RunMachine::Phase::kFailed);
  EXPECT_THAT(machine_->reason(), HasSubstr("round 1 needs 2 clients and can draw 0"));
  EXPECT_THAT(machine_->reason(), HasSubstr("[devices]"));
}

TEST_F(RunMachineFleetTest, Latest_AVersionComesWheneverEnoughHaveCome) {
  rules_.policy = {4, 2, RoundPolicy::BasePolicy::kLatest, 9, true};
  Start(4);
  Work();
  ASSERT_TRUE(commit_);
  EXPECT_EQ(commit_->at, 2 * kSecond);
  commit_.reset();
  Feed(CommitDone{});
  Work();
  ASSERT_TRUE(commit_);
  EXPECT_LT(commit_->at, 4 * kSecond) << "nobody is waited for";
}

TEST_F(RunMachineFleetTest, RestoredAndResumed_GoesOnAtItsTime) {
  devices_->lost = {"client-00002"};
  rules_.fleet_deadline = 100 * kSecond;
  Start(4);
  Work();
  ASSERT_TRUE(commit_);
  Feed(CommitDone{});
  const std::string saved = machine_->Save();
  commit_.reset();
  Work();
  ASSERT_TRUE(commit_);
  const Commit undisturbed = *commit_;
  auto restored = RunMachine::Restore(rules_, saved, NumberedPopulation(4));
  ASSERT_OK(restored);
  EXPECT_EQ(restored->Save(), saved);
  auto resumed =
      RunMachine::Resume(rules_, saved, {.population = NumberedPopulation(4), .committed_round = 1, .attempt = 1}, 0);
  ASSERT_OK(resumed);
  machine_ = *std::move(resumed);
  commit_.reset();
  Feed(Tick{});
  Work();
  ASSERT_TRUE(commit_);
  EXPECT_EQ(commit_->at, undisturbed.at);
  EXPECT_EQ(commit_->tasks, undisturbed.tasks);
}

TEST_F(RunMachineFleetTest, TasksOfSteps_AreRefused) {
  rules_.barriers = {{}};
  EXPECT_THAT(RunMachine::Create(rules_, {.population = NumberedPopulation(4)}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("take no virtual time")));
}

}  // namespace
}  // namespace rivulet
