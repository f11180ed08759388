// Clients that are refused, fail or leave, and their replacements.
#include <random>

#include "coordinator/rounds/run_machine.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

struct ReplaceRun {
  ReplaceRun(int64_t cohort, int names, int64_t deadline_ms = 0, int64_t min_reports = 0, int64_t presence_ms = 0) {
    RunRules rules;
    rules.run_id = "run";
    rules.seed = 7;
    rules.rounds = 2;
    rules.policy = {cohort, cohort};
    rules.policy.replace = true;
    rules.min_clients = names;
    rules.min_reports = min_reports;
    rules.deadline_ms = deadline_ms;
    rules.max_attempts = 2;
    rules.presence_ms = presence_ms;
    auto created = RunMachine::Create(rules, RunStart{});
    EXPECT_OK(created);
    machine = *std::move(created);
    ClientsJoined joined;
    for (int i = 0; i < names; ++i) joined.client_ids.push_back(fmt::format("c{:02}", i));
    machine->On(joined, 0);
  }
  std::vector<std::string> On(const Event& event, TimeMs now = 0) {
    std::vector<std::string> lines;
    for (const Action& action : machine->On(event, now)) lines.push_back(Describe(action, "run"));
    return lines;
  }
  std::string ClientAt(size_t index) const { return machine->leases().at(index).client_id; }
  std::vector<std::string> Fail(const std::string& client, TimeMs now = 0) {
    return On(StepReported{client, machine->LeaseOf(client)->task, 0, true, "no data"}, now);
  }
  std::vector<std::string> Refuse(const std::string& client) {
    const TaskId task = machine->LeaseOf(client)->task;
    On(StepReported{client, task});
    return On(StageDone{task, false, "NaN"});
  }
  std::vector<std::string> Deliver(const std::string& client) {
    const TaskId task = machine->LeaseOf(client)->task;
    On(StepReported{client, task});
    On(StageDone{task});
    return On(FoldDone{task});
  }
  std::optional<RunMachine> machine;
};

// The order in which all of `names` would be asked.
std::vector<std::string> WholeDraw(int names) {
  ReplaceRun run(names, names);
  std::vector<std::string> order;
  for (const Lease& lease : run.machine->leases()) order.push_back(lease.client_id);
  return order;
}

TEST(RunMachineReplaceTest, WhoeverEndsWithoutAnUpdate_IsReplacedByTheNextOfTheDraw) {
  const std::vector<std::string> order = WholeDraw(6);
  ReplaceRun run(2, 6);
  EXPECT_THAT(run.Refuse(order[0]), ElementsAre(fmt::format("offer r1 a1 {}#0", order[2])));
  EXPECT_THAT(run.Fail(order[1]), ElementsAre(fmt::format("offer r1 a1 {}#0", order[3])));
  EXPECT_THAT(run.On(ClientLeft{order[2]}), ElementsAre(fmt::format("offer r1 a1 {}#0", order[4])));
  // One that is refused while it is folded.
  const TaskId task = run.machine->LeaseOf(order[3])->task;
  run.On(StepReported{order[3], task});
  run.On(StageDone{task});
  EXPECT_THAT(run.On(FoldDone{task, false, "diverged"}), ElementsAre(fmt::format("offer r1 a1 {}#0", order[5])));
  run.Deliver(order[5]);
  EXPECT_THAT(run.Deliver(order[4]), Contains(HasSubstr("commit r1 a1 ")));
  EXPECT_EQ(run.machine->CountInState(Lease::State::kFolded), 2);
}

TEST(RunMachineReplaceTest, NobodyLeftToAsk_ClosesWithWhatItHas) {
  ReplaceRun run(2, 3, 0, 1);
  const std::string first = run.ClientAt(0), second = run.ClientAt(1);
  run.Fail(first);
  run.Fail(run.ClientAt(2));
  EXPECT_EQ(run.machine->leases().size(), 3u);
  EXPECT_THAT(run.Deliver(second), ElementsAre("close r1 a1", fmt::format("commit r1 a1 {}#0", second)));
}

TEST(RunMachineReplaceTest, NameThatJoinsMeanwhile_IsNotAskedInThisAttempt) {
  ReplaceRun run(1, 2);
  const std::vector<std::string> order = WholeDraw(2);
  run.On(ClientsJoined{{"c00a", "zz"}});
  EXPECT_THAT(run.Fail(order[0]), ElementsAre(fmt::format("offer r1 a1 {}#0", order[1])));
  EXPECT_THAT(run.Fail(order[1]), ElementsAre("close r1 a1", HasSubstr("abandon r1 a1")));
}

TEST(RunMachineReplaceTest, AtTheDeadline_NobodyIsAskedAnyMore) {
  ReplaceRun run(2, 6, 1000);
  EXPECT_THAT(run.Fail(run.ClientAt(0), 1000), Not(Contains(HasSubstr("offer"))));
  EXPECT_THAT(run.On(Tick{}, 1000), Not(Contains(HasSubstr("offer"))));
  EXPECT_EQ(run.machine->phase(), RunMachine::Phase::kAbandoning);
}

TEST(RunMachineReplaceTest, NextAttempt_IsWithoutWhoWasRefusedOrFailed_UnlessTooFewAreLeft) {
  for (const bool refused : {true, false}) {
    SCOPED_TRACE(refused ? "refused" : "failed");
    ReplaceRun run(2, 4, 1000);
    const std::string bad = run.ClientAt(0);
    refused ? run.Refuse(bad) : run.Fail(bad);
    run.On(Tick{}, 1000);
    run.On(CommitDone{}, 1000);
    ASSERT_EQ(run.machine->attempt(), 2);
    // All three others are asked before the buffer has nobody left.
    run.Refuse(run.ClientAt(0));
    run.Refuse(run.ClientAt(1));
    EXPECT_EQ(run.machine->leases().size(), 3u);
    EXPECT_EQ(run.machine->LeaseOf(bad), nullptr);
  }

  ReplaceRun alone(1, 1);
  alone.Refuse(alone.ClientAt(0));
  EXPECT_THAT(alone.On(CommitDone{}), ElementsAre("offer r1 a2 c00#1")) << "there is nobody else";
}

TEST(RunMachineReplaceTest, NewVersion_AsksEverybodyAgain) {
  ReplaceRun run(1, 2);
  const std::vector<std::string> order = WholeDraw(2);
  run.Refuse(order[0]);
  run.Deliver(order[1]);
  run.On(CommitDone{});
  run.Refuse(run.ClientAt(0));
  EXPECT_EQ(run.machine->leases().size(), 2u) << "one of the two was refused before";
}

TEST(RunMachinePresenceTest, WhoIsSilent_IsNotDrawnAndTheNextTakesItsPlace) {
  const std::vector<std::string> order = WholeDraw(6);
  for (const bool away : {false, true}) {
    ReplaceRun run(2, 6, 0, 1, 1000);
    run.Deliver(order[0]);
    run.Deliver(order[1]);
    for (const std::string& client : order) run.On(Polled{client}, away && client == "c04" ? 400 : 1100);
    run.On(CommitDone{}, 1500);
    // The second round is drawn from those that polled within a second.
    std::vector<std::string> second;
    for (size_t i = 0; i < 2; ++i) second.push_back(run.ClientAt(i));
    if (!away) {
      EXPECT_THAT(second, Contains("c04")) << "the test names one who is drawn";
    } else {
      EXPECT_THAT(second, Not(Contains("c04")));
    }
  }
}

TEST(RunMachinePresenceTest, TooFewArePresent_RunWaitsAndBeginsNoAttempt) {
  ReplaceRun run(3, 3, 0, 2, 1000);
  for (const char* client : {"c00", "c01", "c02"}) run.Deliver(client);
  EXPECT_THAT(run.On(CommitDone{}, 5000), ElementsAre());
  EXPECT_EQ(run.machine->phase(), RunMachine::Phase::kWaiting);
  const auto actions = run.machine->On(Polled{"c01"}, 5000);
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(std::get<AskToWait>(actions[0]).message, "1 clients are present; round 2 starts when 2 are");
  EXPECT_THAT(run.On(Polled{"c02"}, 5900), Contains(HasSubstr("offer r2 a1 c01")));
  EXPECT_EQ(run.machine->leases().size(), 2u);
  EXPECT_EQ(run.machine->attempt(), 1);
}

TEST(RunMachinePresenceTest, UploadsCountAsBeingThere) {
  ReplaceRun run(1, 1, 0, 1, 1000);
  const TaskId task = run.machine->LeaseOf("c00")->task;
  run.On(Polled{"c00"}, 0);
  run.On(StepReported{"c00", task}, 4000);
  run.On(StageDone{task}, 8000);
  run.On(FoldDone{task}, 8001);
  EXPECT_THAT(run.On(CommitDone{}, 8002), Contains("offer r2 a1 c00#0"));
}

TEST(RunMachinePauseTest, NextAttempt_BeginsAfterAPauseThatGrows) {
  RunRules rules;
  rules.run_id = "run";
  rules.policy = {1, 1};
  rules.max_attempts = 0;
  rules.retry = {100, 300};
  RunMachine machine = *RunMachine::Create(rules, RunStart{});
  machine.On(ClientsJoined{{"a"}}, 0);
  TimeMs now = 0;
  for (const TimeMs pause : {100, 200, 300, 300}) {
    machine.On(StepReported{"a", machine.LeaseOf("a")->task, 0, true, "no data"}, now);
    const auto actions = machine.On(CommitDone{}, now);
    ASSERT_EQ(actions.size(), 1u);
    EXPECT_EQ(std::get<WakeAt>(actions[0]).time, now + pause);
    machine.On(Tick{}, now + pause - 1);
    EXPECT_EQ(machine.phase(), RunMachine::Phase::kWaiting);
    now += pause;
    machine.On(Tick{}, now);
    ASSERT_EQ(machine.phase(), RunMachine::Phase::kTraining);
  }
  EXPECT_EQ(machine.attempt(), 5) << "no attempt is the last";
}

// The same clients fail, at whatever moment: the version is of the first of the draw that did not.
TEST(RunMachineReplaceTest, OrderOfFailures_IsNotSeen) {
  const std::vector<std::string> order = WholeDraw(12);
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::set<std::string> failing;
    while (failing.size() < seed % 6) failing.insert(order[random() % order.size()]);
    std::set<std::string> expected;
    for (const std::string& client : order) {
      if (!failing.contains(client) && expected.size() < 4) expected.insert(client);
    }
    std::string commit = "commit r1 a1";
    for (const std::string& client : expected) commit += fmt::format(" {}#0", client);
    for (int shuffle = 0; shuffle < 5; ++shuffle) {
      ReplaceRun run(4, 12);
      std::vector<std::string> last;
      while (run.machine->phase() == RunMachine::Phase::kTraining) {
        const std::string client = run.ClientAt(random() % run.machine->leases().size());
        if (run.machine->LeaseOf(client)->resolved()) continue;
        last = !failing.contains(client) ? run.Deliver(client)
               : random() % 2 == 0       ? run.Fail(client)
                                         : run.Refuse(client);
      }
      ASSERT_THAT(last, Contains(commit));
    }
  }
}

}  // namespace
}  // namespace rivulet
