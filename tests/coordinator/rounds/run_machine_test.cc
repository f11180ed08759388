#include "coordinator/rounds/run_machine.h"

#include <algorithm>
#include <ctime>

#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

RunRules Rules(int64_t cohort) {
  RunRules rules;
  rules.run_id = "run";
  rules.seed = 7;
  rules.rounds = 2;
  rules.policy = {cohort, cohort};
  rules.min_clients = cohort;
  rules.deadline_ms = 1000;
  rules.max_attempts = 2;
  return rules;
}

RunMachine Machine(RunRules rules, RunStart start = {}) {
  auto machine = RunMachine::Create(std::move(rules), std::move(start));
  EXPECT_OK(machine);
  return *std::move(machine);
}

// What the machine says, a line an action.
std::vector<std::string> On(RunMachine& machine, const Event& event, TimeMs now = 0) {
  std::vector<std::string> lines;
  for (const Action& action : machine.On(event, now)) lines.push_back(Describe(action, "run"));
  return lines;
}

TaskId TaskOf(const RunMachine& machine, const std::string& client_id) {
  for (const Lease& lease : machine.leases()) {
    if (lease.client_id == client_id) return lease.task;
  }
  ADD_FAILURE() << client_id << " has no lease";
  return "";
}

// Poll, upload, fold.
std::vector<std::string> Deliver(RunMachine& machine, const std::string& client_id, TimeMs now = 0) {
  On(machine, Polled{client_id}, now);
  const TaskId task = TaskOf(machine, client_id);
  On(machine, StepReported{client_id, task}, now);
  EXPECT_THAT(On(machine, StageDone{task}, now), ElementsAre(HasSubstr("fold")));
  return On(machine, FoldDone{task}, now);
}

TEST(RunMachineTest, Joined_FewerThanMinClients_DrawsNothing) {
  RunMachine machine = Machine(Rules(2));
  EXPECT_THAT(On(machine, ClientsJoined{{"a"}}), IsEmpty());
  EXPECT_EQ(machine.phase(), RunMachine::Phase::kWaiting);
  const auto actions = machine.On(Polled{"a"}, 0);
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(std::get<AskToWait>(actions[0]).message, "1 of 2 clients; round 1 starts when all have joined");
}

TEST(RunMachineTest, TwoClients_TwoRounds_Finishes) {
  RunMachine machine = Machine(Rules(2));
  EXPECT_THAT(On(machine, ClientsJoined{{"b", "a"}}),
              ::testing::UnorderedElementsAre("offer r1 a1 a#0", "offer r1 a1 b#0", "wake"));
  EXPECT_THAT(On(machine, Polled{"a"}), ElementsAre("offer-again r1 a1 a#0"));
  const TaskId a = TaskOf(machine, "a");
  EXPECT_EQ(a, "run-r1-a1-a-0");
  EXPECT_THAT(On(machine, StepReported{"a", a}), ElementsAre("stage r1 a1 a#0"));
  EXPECT_THAT(On(machine, StageDone{a}), ElementsAre("fold r1 a1 a#0"));
  EXPECT_THAT(On(machine, FoldDone{a}), IsEmpty());
  EXPECT_THAT(On(machine, Polled{"a"}), ElementsAre("wait a"));
  EXPECT_THAT(Deliver(machine, "b"), ElementsAre("close r1 a1", "commit r1 a1 a#0 b#0"));
  EXPECT_EQ(machine.phase(), RunMachine::Phase::kCommitting);
  EXPECT_THAT(On(machine, CommitDone{}), ::testing::Contains("offer r2 a1 a#0"));
  EXPECT_EQ(machine.committed_round(), 1);
  Deliver(machine, "b");
  Deliver(machine, "a");
  EXPECT_THAT(On(machine, CommitDone{}), IsEmpty());
  EXPECT_EQ(machine.phase(), RunMachine::Phase::kFinished);
  EXPECT_THAT(On(machine, Polled{"a"}), ElementsAre("refuse a: the run has finished after round 2"));
}

TEST(RunMachineTest, Polled_UnknownName_IsRefused) {
  RunMachine machine = Machine(Rules(1));
  EXPECT_THAT(On(machine, Polled{"x"}), ElementsAre("refuse x: client 'x' has not joined this run"));
}

TEST(RunMachineTest, Polled_AgainAfterACrash_GetsTheSameTask) {
  RunMachine machine = Machine(Rules(1));
  On(machine, ClientsJoined{{"a"}});
  const auto first = On(machine, Polled{"a"});
  EXPECT_EQ(On(machine, Polled{"a"}, 500), first);
  On(machine, StepReported{"a", TaskOf(machine, "a")});
  EXPECT_EQ(On(machine, Polled{"a"}, 999), first) << "an upload was cut off";
}

struct RefusedReport {
  const char* name;
  Lease::State state;
  const char* client_id;
  Refuse::Why why;
};

TEST(RunMachineTest, StepReported_WhenItCannotBeStaged_SaysWhy) {
  using State = Lease::State;
  const RefusedReport cases[] = {
      {"folded", State::kFolded, "a", Refuse::Why::kDuplicate},
      {"folding", State::kFolding, "a", Refuse::Why::kBusy},
      {"refused", State::kRefused, "a", Refuse::Why::kLate},
      {"dropped", State::kDropped, "a", Refuse::Why::kLate},
      {"failed", State::kFailed, "a", Refuse::Why::kLate},
      {"another's", State::kTaken, "b", Refuse::Why::kUnknown},
  };
  for (const RefusedReport& c : cases) {
    RunRules rules = Rules(2);
    RunMachine machine = Machine(rules);
    On(machine, ClientsJoined{{"a", "b"}});
    const TaskId task = TaskOf(machine, "a");
    On(machine, Polled{"a"});
    if (c.state == State::kFailed) {
      On(machine, StepReported{"a", task, 0, true, "no data"});
    } else if (c.state == State::kDropped) {
      On(machine, ClientLeft{"a"});
    } else if (c.state != State::kTaken) {
      On(machine, StepReported{"a", task});
      On(machine, StageDone{task, c.state != State::kRefused, "NaN"});
      if (c.state == State::kFolded) On(machine, FoldDone{task});
    }
    ASSERT_EQ(machine.LeaseOf("a")->state, c.state) << c.name;
    const auto actions = machine.On(StepReported{c.client_id, task}, 0);
    ASSERT_EQ(actions.size(), 1u) << c.name;
    EXPECT_EQ(std::get<Refuse>(actions[0]).why, c.why) << c.name;
  }
}

TEST(RunMachineTest, StepReported_UnknownTask_IsRefused) {
  RunMachine machine = Machine(Rules(1));
  On(machine, ClientsJoined{{"a"}});
  EXPECT_THAT(On(machine, StepReported{"a", "run-r9-a1-a-0"}), ElementsAre(HasSubstr("has no task 'run-r9-a1-a-0'")));
}

TEST(RunMachineTest, Tick_AtTheDeadlineWithTooFewReports_AbandonsAndTriesAgain) {
  RunMachine machine = Machine(Rules(2));
  On(machine, ClientsJoined{{"a", "b"}}, 100);
  Deliver(machine, "a", 200);
  EXPECT_THAT(On(machine, Tick{}, 1099), ElementsAre("wake"));
  const auto actions = On(machine, Tick{}, 1100);
  EXPECT_THAT(actions, ElementsAre("close r1 a1", HasSubstr("abandon r1 a1: 1 of 2 updates")));
  EXPECT_THAT(actions[1], HasSubstr("client 'b' dropped: no update arrived before the deadline of 1 s"));
  EXPECT_EQ(machine.phase(), RunMachine::Phase::kAbandoning);
  // The second lease at the same base version has the next ordinal: other random numbers, another task.
  EXPECT_THAT(On(machine, CommitDone{}, 1200), ::testing::Contains("offer r1 a2 a#1"));
  EXPECT_EQ(machine.deadline(), 2200);
}

TEST(RunMachineTest, Tick_AtTheDeadlineWithEnoughReports_Commits) {
  RunRules rules = Rules(2);
  rules.min_reports = 1;
  RunMachine machine = Machine(rules);
  On(machine, ClientsJoined{{"a", "b"}});
  Deliver(machine, "b");
  EXPECT_THAT(On(machine, Tick{}, 1000), ElementsAre("close r1 a1", "commit r1 a1 b#0"));
}

TEST(RunMachineTest, Tick_WhileAnUpdateIsFolded_WaitsForIt) {
  RunMachine machine = Machine(Rules(1));
  On(machine, ClientsJoined{{"a"}});
  const TaskId task = TaskOf(machine, "a");
  On(machine, StepReported{"a", task});
  On(machine, StageDone{task});
  EXPECT_THAT(On(machine, Tick{}, 5000), IsEmpty());
  EXPECT_THAT(On(machine, FoldDone{task}, 5001), ElementsAre("close r1 a1", "commit r1 a1 a#0"));
}

TEST(RunMachineTest, StageDone_AfterTheDeadline_IsRefusedAsLate) {
  RunRules rules = Rules(2);
  rules.min_reports = 1;
  RunMachine machine = Machine(rules);
  On(machine, ClientsJoined{{"a", "b"}});
  Deliver(machine, "b");
  const TaskId task = TaskOf(machine, "a");
  On(machine, StepReported{"a", task});
  On(machine, Tick{}, 1000);
  EXPECT_THAT(On(machine, StageDone{task}, 1001), ElementsAre(HasSubstr("refuse r1 a1 a#0: no update arrived before")));
  EXPECT_EQ(machine.LeaseOf("a")->state, Lease::State::kDropped);
}

TEST(RunMachineTest, Attempts_AllAbandoned_RunFailsInTheClientsWords) {
  RunMachine machine = Machine(Rules(1));
  On(machine, ClientsJoined{{"a"}});
  On(machine, StepReported{"a", TaskOf(machine, "a"), 0, true, "label 12 at record 3"});
  On(machine, CommitDone{});
  const auto actions = machine.On(StepReported{"a", TaskOf(machine, "a"), 0, true, "label 12 at record 4"}, 0);
  ASSERT_EQ(actions.size(), 2u);
  EXPECT_TRUE(std::get<Abandon>(actions[1]).last);
  EXPECT_THAT(On(machine, CommitDone{}), IsEmpty());
  EXPECT_EQ(machine.phase(), RunMachine::Phase::kFailed);
  EXPECT_EQ(machine.reason(),
            "round 1 failed after 2 attempts; in the last, 0 of 1 updates that round 1 needs arrived (client 'a' "
            "failed: label 12 at record 4)");
}

TEST(RunMachineTest, CommitDone_NotOk_FailsTheRun) {
  RunMachine machine = Machine(Rules(1));
  On(machine, ClientsJoined{{"a"}});
  Deliver(machine, "a");
  On(machine, CommitDone{false, "the disk is full"});
  EXPECT_EQ(machine.phase(), RunMachine::Phase::kFailed);
  EXPECT_EQ(machine.reason(), "the disk is full");
  EXPECT_EQ(machine.committed_round(), 0);
}

// A round is under way, or being committed: it would only be made in vain.
TEST(RunMachineTest, VersionFailed_EndsTheRunAtOnce) {
  for (const bool committing : {false, true}) {
    RunMachine machine = Machine(Rules(1));
    On(machine, ClientsJoined{{"a"}});
    if (committing) Deliver(machine, "a");
    EXPECT_THAT(On(machine, VersionFailed{"the disk is full"}), IsEmpty());
    EXPECT_EQ(machine.phase(), RunMachine::Phase::kFailed);
    EXPECT_EQ(machine.reason(), "the disk is full");
    EXPECT_THAT(On(machine, CommitDone{}), IsEmpty());
    EXPECT_EQ(machine.phase(), RunMachine::Phase::kFailed);
  }
}

TEST(RunMachineTest, Operator_StopInTraining_StopsAtOnce) {
  RunMachine machine = Machine(Rules(1));
  On(machine, ClientsJoined{{"a"}});
  On(machine, Operator{});
  EXPECT_EQ(machine.phase(), RunMachine::Phase::kStopped);
}

TEST(RunMachineTest, Operator_StopWhileCommitting_StopsAfterTheCommit) {
  RunMachine machine = Machine(Rules(1));
  On(machine, ClientsJoined{{"a"}});
  Deliver(machine, "a");
  On(machine, Operator{});
  EXPECT_EQ(machine.phase(), RunMachine::Phase::kCommitting);
  On(machine, CommitDone{});
  EXPECT_EQ(machine.phase(), RunMachine::Phase::kStopped);
  EXPECT_EQ(machine.committed_round(), 1);
}

TEST(RunMachineTest, Left_WithAnOpenLease_DropsItAndIsNoCandidate) {
  RunRules rules = Rules(2);
  rules.min_reports = 1;
  rules.min_clients = 1;
  RunMachine machine = Machine(rules);
  On(machine, ClientsJoined{{"a", "b"}});
  On(machine, ClientLeft{"a"});
  EXPECT_THAT(Deliver(machine, "b"), ElementsAre("close r1 a1", "commit r1 a1 b#0"));
  EXPECT_THAT(On(machine, CommitDone{}), ElementsAre("offer r2 a1 b#0", "wake"));
}

TEST(RunMachineTest, OverSelection_FirstUpdatesMakeTheVersion) {
  RunRules rules = Rules(1);
  rules.policy = {3, 1};
  rules.min_clients = 3;
  RunMachine machine = Machine(rules);
  On(machine, ClientsJoined{{"a", "b", "c"}});
  EXPECT_THAT(Deliver(machine, "b"), ElementsAre("close r1 a1", "commit r1 a1 b#0"));
  EXPECT_EQ(machine.LeaseOf("a")->state, Lease::State::kDropped);
  EXPECT_EQ(machine.LeaseOf("a")->reason, "the round had enough updates without it");
}

TEST(RunMachineTest, Selection_DependsOnNamesAndSeedAlone) {
  RunRules rules = Rules(3);
  rules.min_clients = 10;
  std::vector<std::string> names;
  for (int i = 0; i < 10; ++i) names.push_back(fmt::format("c{}", i));
  RunMachine once = Machine(rules);
  const auto offers = On(once, ClientsJoined{names});
  std::reverse(names.begin(), names.end());
  RunMachine one_by_one = Machine(rules);
  std::vector<std::string> last;
  for (const std::string& name : names) last = On(one_by_one, ClientsJoined{{name}});
  EXPECT_EQ(last, offers);
  rules.seed = 8;
  RunMachine other_seed = Machine(rules);
  EXPECT_NE(On(other_seed, ClientsJoined{names}), offers);
}

TEST(RunMachineTest, Selection_NewAttemptDrawsAnew) {
  RunRules rules = Rules(3);
  rules.min_clients = 50;
  std::vector<std::string> names;
  for (int i = 0; i < 50; ++i) names.push_back(fmt::format("c{:02}", i));
  RunMachine machine = Machine(rules);
  On(machine, ClientsJoined{names});
  std::vector<std::string> first, second;
  for (const Lease& lease : machine.leases()) first.push_back(lease.client_id);
  On(machine, Tick{}, 1000);
  On(machine, CommitDone{}, 1000);
  for (const Lease& lease : machine.leases()) second.push_back(lease.client_id);
  EXPECT_EQ(machine.attempt(), 2);
  EXPECT_NE(first, second);
}

TEST(RunMachineTest, Selection_EachNameEquallyOften) {
  // 2,000 draws of 3 of 10 names: each name 600 times, standard deviation 20.5; five of them are far.
  RunRules rules = Rules(3);
  rules.min_clients = 10;
  rules.rounds = 3000;
  std::vector<std::string> names;
  for (int i = 0; i < 10; ++i) names.push_back(fmt::format("c{}", i));
  std::map<std::string, int> drawn;
  for (int round = 0; round < 2000; ++round) {
    RunStart start;
    start.committed_round = round;
    RunMachine machine = Machine(rules, start);
    On(machine, ClientsJoined{names});
    for (const Lease& lease : machine.leases()) ++drawn[lease.client_id];
  }
  for (const auto& [name, count] : drawn) EXPECT_NEAR(count, 600, 103) << name;
}

// Whoever waits asks again and again, and a run that waits for many names must not look at all of them each time.
TEST(RunMachineTest, JoinedAndPolled_WhileManyWait_WalkOverNobody) {
  const auto seconds_of = [](int names) {
    RunRules rules = Rules(1);
    rules.min_clients = names + 1;
    rules.presence_ms = 60'000;
    RunMachine machine = Machine(rules);
    const clock_t begin = clock();
    for (int i = 0; i < names; ++i) {
      const std::string name = fmt::format("client-{}", i);
      (void)machine.On(ClientsJoined{{name}}, i);
      (void)machine.On(Polled{name}, i);
    }
    EXPECT_EQ(machine.phase(), RunMachine::Phase::kWaiting);
    return static_cast<double>(clock() - begin) / CLOCKS_PER_SEC;
  };
  // Sixteen times as many take 256 times as long where each walks over all.
  double few = 1, many = 1;
  for (int i = 0; i < 3; ++i) {
    few = std::min(few, seconds_of(2'000));
    many = std::min(many, seconds_of(32'000));
  }
  EXPECT_LT(many, 64 * few);
}

TEST(RunMachineTest, Restart_WithNameThatJoinedMeanwhile_DrawsTheSameCohort) {
  RunRules rules = Rules(2);
  rules.min_clients = 4;
  rules.rounds = 5;
  RunMachine before = Machine(rules);
  const auto offers = On(before, ClientsJoined{{"a", "b", "c", "d"}});
  const auto [round, attempt] = before.next_draw();
  EXPECT_EQ(std::pair(round, attempt), (std::pair<int64_t, int64_t>(1, 2)));
  On(before, ClientsJoined{{"e", "f", "g", "h"}});

  RunStart start;
  for (const char* name : {"a", "b", "c", "d"}) start.candidates.push_back({name, 1, 1});
  for (const char* name : {"e", "f", "g", "h"}) start.candidates.push_back({name, round, attempt});
  RunMachine after = Machine(rules, start);
  EXPECT_EQ(On(after, Tick{}), offers);
  // And the round after is drawn from all of them, by both.
  for (RunMachine* machine : {&before, &after}) {
    std::vector<std::string> cohort;
    for (const Lease& lease : machine->leases()) cohort.push_back(lease.client_id);
    for (const std::string& name : cohort) Deliver(*machine, name);
  }
  EXPECT_EQ(On(before, CommitDone{}), On(after, CommitDone{}));
}

TEST(RunMachineTest, Create_OutOfRange_NamesTheKey) {
  const auto message = [](auto change) {
    RunRules rules = Rules(2);
    change(rules);
    const auto machine = RunMachine::Create(rules, RunStart{});
    return machine.ok() ? "accepted" : std::string(Message(machine.status()));
  };
  EXPECT_THAT(message([](RunRules& r) { r.rounds = 0; }), HasSubstr("run.rounds is 0"));
  EXPECT_THAT(message([](RunRules& r) { r.policy.in_flight = 0; }), HasSubstr("server.clients_per_round is 0"));
  EXPECT_THAT(message([](RunRules& r) { r.policy.updates_per_version = 0; }), HasSubstr("0 updates"));
  EXPECT_THAT(message([](RunRules& r) { r.policy.max_staleness = 1; }), HasSubstr("max_staleness is 1"));
  EXPECT_THAT(message([](RunRules& r) { r.min_reports = 3; }), HasSubstr("server.min_reports is 3"));
  EXPECT_THAT(message([](RunRules& r) { r.min_clients = -1; }), HasSubstr("server.min_clients is -1"));
  EXPECT_THAT(message([](RunRules& r) { r.deadline_ms = -1; }), HasSubstr("server.deadline"));
  EXPECT_THAT(message([](RunRules& r) { r.max_attempts = -1; }), HasSubstr("server.max_attempts is -1"));
  EXPECT_THAT(message([](RunRules& r) { r.presence_ms = -1; }), HasSubstr("server.presence"));
  EXPECT_THAT(message([](RunRules& r) { r.run_id = ""; }), HasSubstr("id"));
}

TEST(RunMachineTest, Create_AtTheEdgesOfItsRanges_IsAccepted) {
  const auto status = [](auto change) {
    RunRules rules = Rules(2);
    change(rules);
    return RunMachine::Create(rules, RunStart{}).status();
  };
  EXPECT_OK(status([](RunRules& r) { r.rounds = (int64_t{1} << 32) - 1; }));
  EXPECT_THAT(status([](RunRules& r) { r.rounds = int64_t{1} << 32; }), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_OK(status([](RunRules& r) { r.policy = {1, 1}; }));
  EXPECT_OK(status([](RunRules& r) { r.min_reports = 2; }));
  EXPECT_OK(status([](RunRules& r) { r.evaluation = {1, 2, 2}; }));
  EXPECT_OK(status([](RunRules& r) {
    r.rounds = 1;
    r.min_clients = r.deadline_ms = r.max_attempts = r.lease_ms = r.presence_ms = 0;
  }));
}

// What a refusal names is what somebody has sent: perhaps no more of a task's name than the run's id.
TEST(DescribeTest, TaskIsNamedWithoutItsRun_OrAsItStands) {
  const auto refusal = [](const char* task) {
    return Describe(Refuse{"c", task, Refuse::Why::kUnknown, "why"}, "run");
  };
  EXPECT_EQ(refusal("run-r1-a2-client-7-0"), "refuse r1 a2 client-7#0: why");
  EXPECT_EQ(refusal("run-x"), "refuse x: why");
  EXPECT_EQ(refusal("run-"), "refuse run-: why");
  EXPECT_EQ(refusal("run"), "refuse run: why");
  EXPECT_EQ(refusal("r1-a2"), "refuse r1-a2: why");
}

TEST(RunMachineTest, Restore_DamagedAnywhere_IsRefused) {
  RunMachine machine = Machine(Rules(2));
  On(machine, ClientsJoined{{"a", "b"}});
  const std::string snapshot = machine.Save();
  ASSERT_OK(RunMachine::Restore(Rules(2), snapshot));
  for (size_t i = 0; i < snapshot.size(); ++i) {
    std::string damaged = snapshot;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    EXPECT_THAT(RunMachine::Restore(Rules(2), damaged), StatusIs(absl::StatusCode::kDataLoss)) << "byte " << i;
    EXPECT_THAT(RunMachine::Restore(Rules(2), snapshot.substr(0, i)), StatusIs(absl::StatusCode::kDataLoss))
        << "cut at " << i;
  }
}

// Another process has another clock: what is kept is how long ago something was.
TEST(RunMachineTest, Restore_ByAnotherClock_KnowsHowLongAgo) {
  RunRules rules = Rules(2);
  rules.presence_ms = rules.lease_ms = 500;
  RunMachine machine = Machine(rules);
  On(machine, ClientsJoined{{"a", "b"}}, 800);
  On(machine, SitePolled{"site", SitePolled::Serves::kAny, {}, 1}, 900);
  const std::string snapshot = machine.Save(1000);
  ASSERT_THAT(snapshot, HasSubstr("site"));
  auto restored = RunMachine::Restore(rules, snapshot, nullptr, 50);
  ASSERT_OK(restored);
  EXPECT_EQ(restored->Save(50), snapshot);
}

TEST(RunMachineTest, Restore_OfAnotherRun_IsRefused) {
  const std::string snapshot = Machine(Rules(2)).Save();
  RunRules other = Rules(2);
  other.run_id = "other";
  EXPECT_THAT(RunMachine::Restore(other, snapshot), StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace rivulet
