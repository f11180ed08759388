// Clients and sites that fall silent during a task.
#include "coordinator/rounds/run_machine.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr TimeMs kLease = 60, kDeadline = 1000;

struct LeaseRun {
  LeaseRun(int64_t cohort, int names, int64_t min_reports, bool join = true) {
    RunRules rules;
    rules.run_id = "run";
    rules.seed = 7;
    rules.rounds = 2;
    rules.policy = {cohort, cohort};
    rules.policy.replace = true;
    rules.min_clients = names;
    rules.min_reports = min_reports;
    rules.deadline_ms = kDeadline;
    rules.lease_ms = kLease;
    rules.max_attempts = 2;
    machine = *RunMachine::Create(rules, RunStart{});
    ClientsJoined joined;
    for (int i = 0; i < names; ++i) joined.client_ids.push_back(fmt::format("c{:02}", i));
    if (join) begun = On(joined, 0);
  }
  std::vector<std::string> On(const Event& event, TimeMs now) {
    std::vector<std::string> lines;
    for (const Action& action : machine->On(event, now)) lines.push_back(Describe(action, "run"));
    return lines;
  }
  std::string ClientAt(size_t index) const { return machine->leases().at(index).client_id; }
  TaskId TaskOf(const std::string& client) const { return machine->LeaseOf(client)->task; }
  Lease::State StateOf(const std::string& client) const { return machine->LeaseOf(client)->state; }
  std::vector<std::string> Beat(const std::string& client, TimeMs now) {
    return On(SitePolled{client, SitePolled::Serves::kItself, {{TaskOf(client)}}, 0}, now);
  }
  std::vector<std::string> Deliver(const std::string& client, TimeMs now) {
    const TaskId task = TaskOf(client);
    On(StepReported{client, task}, now);
    On(StageDone{task}, now);
    return On(FoldDone{task}, now);
  }
  std::optional<RunMachine> machine;
  std::vector<std::string> begun;
};

TEST(RunMachineLeaseTest, SilentClient_IsReplacedAfterALease) {
  LeaseRun run(2, 3, 1);
  const std::string silent = run.ClientAt(0), other = run.ClientAt(1);
  EXPECT_THAT(run.begun, Contains("wake"));
  run.On(Polled{silent}, 10);
  run.On(Polled{other}, 10);
  run.Beat(other, 50);
  EXPECT_THAT(run.On(Tick{}, 60), ElementsAre("wake")) << "nobody is late yet";
  EXPECT_THAT(run.On(Tick{}, 70), ElementsAre(HasSubstr("offer r1 a1 c"), "wake"));
  EXPECT_EQ(run.StateOf(silent), Lease::State::kLapsed);
  const std::string third = run.ClientAt(2);
  run.Deliver(other, 80);
  EXPECT_THAT(run.Deliver(third, 90), Contains(HasSubstr("commit r1 a1")));
  EXPECT_EQ(run.machine->leases()[0].reason, "it was silent for 0.06 s");
  EXPECT_EQ(run.machine->leases()[0].state, Lease::State::kDropped);
}

TEST(RunMachineLeaseTest, ClientThatNeverAsks_DoesNotKeepTheOthers) {
  LeaseRun run(2, 2, 1);
  const std::string absent = run.ClientAt(0), other = run.ClientAt(1);
  EXPECT_THAT(run.Deliver(other, 20), IsEmpty());
  EXPECT_THAT(run.On(Tick{}, 60), ElementsAre("close r1 a1", fmt::format("commit r1 a1 {}#0", other)));
  EXPECT_EQ(run.StateOf(absent), Lease::State::kDropped);
}

TEST(RunMachineLeaseTest, ClientThatSaysWhatItWorksOn_HasAllTheTimeUntilTheDeadline) {
  LeaseRun run(1, 2, 1);
  const std::string slow = run.ClientAt(0);
  run.On(Polled{slow}, 0);
  for (TimeMs now = 20; now < 400; now += 20) {
    const auto actions = run.machine->On(SitePolled{slow, SitePolled::Serves::kItself, {{run.TaskOf(slow)}}, 0}, now);
    ASSERT_FALSE(actions.empty());
    EXPECT_EQ(std::get<AskToWait>(actions[0]).wait_ms, kLease / 3);
    run.On(Tick{}, now);
  }
  EXPECT_EQ(run.machine->leases().size(), 1u);
  EXPECT_THAT(run.Deliver(slow, 400), Contains(HasSubstr("commit r1 a1")));
}

TEST(RunMachineLeaseTest, UploadIsAWordToo) {
  LeaseRun run(1, 2, 1);
  const std::string client = run.ClientAt(0);
  run.On(Polled{client}, 0);
  run.On(StepReported{client, run.TaskOf(client)}, 50);
  run.On(Tick{}, 60);
  EXPECT_EQ(run.StateOf(client), Lease::State::kStaging);
  run.On(Tick{}, 110);
  EXPECT_EQ(run.StateOf(client), Lease::State::kLapsed);
}

TEST(RunMachineLeaseTest, ClientThatComesBackInTime_HasItsTaskAgain) {
  for (const char* how : {"polls", "says", "uploads", "has uploaded"}) {
    SCOPED_TRACE(how);
    LeaseRun run(2, 3, 1);
    const std::string late = run.ClientAt(0);
    const TaskId task = run.TaskOf(late);
    run.On(Polled{late}, 0);
    if (how == std::string("has uploaded")) run.On(StepReported{late, task}, 0);
    run.On(Tick{}, 60);
    ASSERT_EQ(run.StateOf(late), Lease::State::kLapsed);
    if (how == std::string("polls")) {
      EXPECT_THAT(run.On(Polled{late}, 70), ElementsAre(fmt::format("offer-again r1 a1 {}#0", late)));
    } else if (how == std::string("says")) {
      EXPECT_THAT(run.Beat(late, 70), Not(Contains(HasSubstr("cancel"))));
      EXPECT_EQ(run.StateOf(late), Lease::State::kTaken);
    }
    if (how != std::string("has uploaded")) {
      EXPECT_THAT(run.On(StepReported{late, task}, 80), Contains(HasSubstr("stage")));
    }
    EXPECT_THAT(run.On(StageDone{task}, 90), Contains(HasSubstr("fold")));
    run.On(FoldDone{task}, 90);
    EXPECT_EQ(run.StateOf(late), Lease::State::kFolded);
  }
}

TEST(RunMachineLeaseTest, ClientThatComesBackWhenItsPlaceIsTaken_IsToldToStop) {
  LeaseRun run(1, 2, 1);
  const std::string late = run.ClientAt(0);
  const TaskId task = run.TaskOf(late);
  run.On(Polled{late}, 0);
  run.On(Tick{}, 60);
  run.Deliver(run.ClientAt(1), 70);
  ASSERT_EQ(run.machine->phase(), RunMachine::Phase::kCommitting);
  EXPECT_THAT(run.On(SitePolled{late, SitePolled::Serves::kItself, {{task}}, 0}, 80),
              Contains(fmt::format("cancel r1 a1 {}#0", late)));
}

// Too few updates without whoever is silent: a version needs them, so the attempt goes on to its deadline.
TEST(RunMachineLeaseTest, TooFewWithoutTheSilent_WaitsForThem) {
  LeaseRun run(2, 2, 2);
  const std::string late = run.ClientAt(0);
  run.Deliver(run.ClientAt(1), 10);
  run.On(Tick{}, 60);
  EXPECT_EQ(run.machine->phase(), RunMachine::Phase::kTraining);
  EXPECT_THAT(run.Deliver(late, 500), Contains(HasSubstr("commit r1 a1")));

  LeaseRun gone(2, 2, 2);
  gone.Deliver(gone.ClientAt(1), 10);
  gone.On(Tick{}, 60);
  EXPECT_THAT(gone.On(Tick{}, kDeadline),
              Contains(HasSubstr("abandon r1 a1: 1 of 2 updates that round 1 needs arrived (client")));
}

SitePolled PollOf(const std::string& site, int64_t want, std::vector<SitePolled::Holding> working_on = {}) {
  return {site, SitePolled::Serves::kAny, std::move(working_on), want};
}

TEST(RunMachineLeaseTest, SiteThatDies_LeavesItsTasksToOthers) {
  LeaseRun run(2, 2, 2);
  run.On(PollOf("s0", 4), 0);
  run.On(PollOf("s0", 4), 0);
  const TaskId held = run.TaskOf("c00"), taken = run.TaskOf("c01");
  run.On(PollOf("s0", 0, {{held, true}, {taken}}), 30);
  run.On(Tick{}, 90);
  EXPECT_THAT(run.On(PollOf("s1", 4), 91), Contains(HasSubstr("offer-again r1 a1 c0")));
  EXPECT_THAT(run.On(PollOf("s0", 0, {{held, true}, {taken}}), 92),
              ElementsAre("cancel r1 a1 c00#0", "cancel r1 a1 c01#0", "wait s0"));
}

TEST(RunMachineLeaseTest, WhatASiteHolds_LivesAsLongAsTheSite) {
  LeaseRun run(2, 2, 2);
  run.On(PollOf("s0", 1), 0);
  const TaskId held = run.machine->leases()[0].task;
  run.On(PollOf("s0", 0, {{held, true}}), 10);
  for (TimeMs now = 40; now < 400; now += 30) {
    run.On(PollOf("s0", 0), now);
    run.On(Tick{}, now);
  }
  EXPECT_EQ(run.machine->CountInState(Lease::State::kHeld), 1);
}

TEST(RunMachineLeaseTest, HeldAtTheDeadline_IsAskedForAndWaitedForALease) {
  for (const bool comes : {true, false}) {
    LeaseRun run(2, 2, 1);
    run.On(PollOf("s0", 1), 0);
    const TaskId held = run.machine->leases()[0].task;
    for (TimeMs now = 50; now < kDeadline; now += 50) run.On(PollOf("s0", 0, {{held, true}}), now);
    const auto asked = run.On(Tick{}, kDeadline);
    EXPECT_THAT(asked, ElementsAre(HasSubstr("hand-over s0 c0"), "wake"));
    EXPECT_EQ(run.machine->CountInState(Lease::State::kDropped), 1);
    if (comes) {
      run.On(PartialReported{"s0", {held}}, kDeadline + 50);
      EXPECT_THAT(run.On(Merged{{held}}, kDeadline + 51), Contains(HasSubstr("commit r1 a1")));
    } else {
      EXPECT_THAT(run.On(Tick{}, kDeadline + kLease), Contains(HasSubstr("abandon r1 a1")));
    }
  }
}

}  // namespace
}  // namespace rivulet
