// Selection based on results of earlier versions, and clients excluded from a round.
#include "coordinator/rounds/run_machine.h"
#include "federated/privacy/sum_noise.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

struct SelectedRun {
  explicit SelectedRun(const std::string& selector, int64_t names = 7) : names(names) {
    rules.run_id = "run";
    rules.seed = 7;
    rules.rounds = 30;
    rules.policy = {2, 2};
    rules.policy.replace = true;
    auto created = Selector::Create({selector});
    EXPECT_OK(created);
    rules.selector = *std::move(created);
  }
  void Start(RunStart start = {}) {
    start.population = NumberedPopulation(names);
    auto created = RunMachine::Create(rules, std::move(start));
    EXPECT_OK(created);
    machine = *std::move(created);
    machine->On(Tick{}, 0);
  }
  std::vector<std::string> Cohort() const {
    std::vector<std::string> cohort;
    for (const Lease& lease : machine->leases()) {
      if (lease.state != Lease::State::kFailed) cohort.push_back(lease.client_id);
    }
    return cohort;
  }
  // Everybody of the open round delivers; gives who that was.
  std::vector<std::string> Round() {
    std::vector<std::string> cohort = Cohort();
    CommitDone done;
    for (const std::string& client_id : cohort) {
      const TaskId task = machine->LeaseOf(client_id)->task;
      machine->On(StepReported{client_id, task}, 0);
      machine->On(StageDone{task}, 0);
      machine->On(FoldDone{task}, 0);
      const int64_t number = *NumberOf(client_id);
      done.reported.push_back({client_id, 10 + number, 0.25 * static_cast<double>(number)});
      participations[client_id].version = machine->round();
      ++participations[client_id].versions;
      participations[client_id].examples = 10 + number;
      participations[client_id].loss = 0.25 * static_cast<double>(number);
    }
    machine->On(done, 0);
    return cohort;
  }
  int64_t names;
  RunRules rules;
  std::optional<RunMachine> machine;
  std::map<std::string, Participation> participations;
};

TEST(RunMachineSelectionTest, RoundRobin_AsksNobodyAgainBeforeAllOthersHaveBeen) {
  SelectedRun run("round_robin");
  run.Start();
  std::map<std::string, int64_t> last;
  for (int64_t round = 1; round <= 28; ++round) {
    for (const std::string& client_id : run.Round()) {
      const auto before = last.find(client_id);
      EXPECT_TRUE(before == last.end() || round - before->second >= 3) << client_id;
      last[client_id] = round;
    }
  }
  EXPECT_EQ(last.size(), 7u);
}

// A process that was killed goes on with its snapshot, or, where that is missing, with what rows tell.
TEST(RunMachineSelectionTest, AfterARestart_TheSameCohortsAreDrawn) {
  for (const char* const selector : {"weighted", "round_robin", "power_of_choice", "oort"}) {
    SelectedRun run(selector), other(selector);
    run.Start();
    for (int round = 1; round <= 5; ++round) run.Round();
    RunStart start;
    start.committed_round = 5;
    start.participations = run.participations;
    other.Start(start);
    EXPECT_EQ(other.Cohort(), run.Cohort()) << selector;
    auto restored = RunMachine::Restore(run.rules, run.machine->Save(), NumberedPopulation(7));
    ASSERT_OK(restored);
    SelectedRun copy(selector);
    copy.machine = *std::move(restored);
    EXPECT_EQ(copy.machine->Save(), run.machine->Save()) << selector;
    for (int round = 6; round <= 12; ++round) {
      const std::vector<std::string> cohort = run.Round();
      EXPECT_EQ(other.Round(), cohort) << selector << " " << round;
      EXPECT_EQ(copy.Round(), cohort) << selector << " " << round;
    }
  }
}

TEST(RunMachineSelectionTest, LossThatIsNoNumber_IsAsIfNoneWereTold) {
  for (const double loss : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    Members members(7, NumberedPopulation(3), *Selector::Create({"power_of_choice", {{"candidates", int64_t{3}}}}), 1);
    members.Remember("client-00001", {.version = 1, .versions = 1, .examples = 5, .loss = loss});
    EXPECT_EQ(members.participations().at("client-00001").loss, 0);
    EXPECT_EQ(members.Draw(3, [](const std::string&) { return false; }).back(), "client-00001");
  }
}

TEST(RunMachineSelectionTest, WhoFails_IsFollowedByTheNextOfTheSameOrder) {
  SelectedRun run("round_robin", 5);
  run.Start();
  run.Round();
  run.Round();
  // One has never been asked, and four have: the fifth and the one of longest ago, and then the other of these.
  const std::vector<std::string> cohort = run.Cohort();
  EXPECT_EQ(run.participations.count(cohort[0]), 0u);
  EXPECT_EQ(run.participations[cohort[1]].version, 1);
  run.machine->On(StepReported{cohort[1], run.machine->LeaseOf(cohort[1])->task, 0, true, "no data"}, 0);
  EXPECT_EQ(run.participations[run.Cohort()[1]].version, 1);
  EXPECT_NE(run.Cohort()[1], cohort[1]);
}

TEST(RunMachineSelectionTest, WhereTasksOutliveVersions_OnlyUniformGoes) {
  SelectedRun run("oort");
  run.rules.policy.base_policy = RoundPolicy::BasePolicy::kLatest;
  EXPECT_THAT(RunMachine::Create(run.rules, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("server.base = \"committed\"")));
}

TEST(RunMachineSelectionTest, WhoMayNotBeDrawnInARound_IsPassedOver) {
  SelectedRun run("uniform");
  run.rules.available = [](const std::string& client_id, int64_t round) {
    return (*NumberOf(client_id) + round) % 2 == 0;
  };
  run.Start();
  for (int64_t round = 1; round <= 10; ++round) {
    const std::vector<std::string> cohort = run.Round();
    EXPECT_EQ(cohort.size(), 2u);
    for (const std::string& client_id : cohort) EXPECT_EQ((*NumberOf(client_id) + round) % 2, 0) << client_id;
  }
}

TEST(RunMachineSelectionTest, WhereNobodyElseMayBeDrawn_ARunOfFixedMembersFails) {
  SelectedRun run("uniform");
  run.rules.min_reports = 2;
  run.rules.available = [](const std::string& client_id, int64_t round) {
    return round < 3 || client_id < "client-00001";
  };
  run.Start();
  run.Round();
  run.Round();
  EXPECT_EQ(run.machine->phase(), RunMachine::Phase::kFailed);
  EXPECT_EQ(run.machine->reason(),
            "round 3 needs 2 clients and can draw 1, and no others may be drawn; check selection.trace");
}

// Of seven clients at this rate about two samples of three have nobody.
void DrawRarely(RunRules& rules) {
  auto selector = Selector::Create({"poisson", {{"rate", 0.06}}});
  EXPECT_OK(selector);
  rules.selector = *std::move(selector);
  rules.cohort_key = std::make_shared<const privacy::NoiseKey>(privacy::SeededKey(3));
  rules.policy = {100, 100};
  rules.min_reports = 1;
  rules.may_be_empty = true;
}

TEST(RunMachineSelectionTest, SampleOfNobody_IsAVersionOfNoUpdates) {
  SelectedRun run("uniform");
  DrawRarely(run.rules);
  run.Start();
  int64_t empty = 0, drawn = 0;
  while (!run.machine->over()) {
    if (run.machine->phase() == RunMachine::Phase::kTraining) {
      ++drawn;
      run.Round();
      continue;
    }
    ASSERT_EQ(run.machine->phase(), RunMachine::Phase::kCommitting);
    EXPECT_THAT(run.machine->leases(), ::testing::IsEmpty());
    ++empty;
    run.machine->On(CommitDone{}, 0);
  }
  EXPECT_EQ(run.machine->phase(), RunMachine::Phase::kFinished) << run.machine->reason();
  EXPECT_EQ(empty + drawn, 30);
  EXPECT_GT(empty, 10);
  EXPECT_GT(drawn, 3);
}

TEST(RunMachineSelectionTest, SampleOfNobody_FailsWhereAVersionNeedsUpdates) {
  SelectedRun run("uniform");
  DrawRarely(run.rules);
  run.rules.may_be_empty = false;
  run.Start();
  while (run.machine->phase() == RunMachine::Phase::kTraining) run.Round();
  EXPECT_EQ(run.machine->phase(), RunMachine::Phase::kFailed);
  EXPECT_THAT(run.machine->reason(), HasSubstr("draws 0 clients at selection.rate and needs 1"));
}

// Members that call, and one that has been silent for longer than server.presence.
struct RareFleet {
  RareFleet() {
    DrawRarely(rules);
    rules.run_id = "run";
    rules.rounds = 30;
    rules.deadline_ms = 5000;
    rules.presence_ms = 1000;
    rules.lease_ms = 1000;
    auto created = RunMachine::Create(rules, {});
    EXPECT_OK(created);
    machine = *std::move(created);
  }
  std::vector<Action> Poll(const std::string& client_id) { return machine->On(Polled{client_id}, now); }
  RunRules rules;
  std::optional<RunMachine> machine;
  TimeMs now = 0;
};

TEST(RunMachineSelectionTest, SampleOfAbsentMembers_IsWaitedForUntilTheDeadline) {
  RareFleet fleet;
  RunMachine& machine = *fleet.machine;
  machine.On(ClientsJoined{{"stays"}}, fleet.now);
  std::vector<std::string> away;
  for (int i = 0; i < 400; ++i) away.push_back(fmt::format("away-{:03}", i));
  // With 400 members more every sample has somebody, and the round that is being made now has nobody.
  ASSERT_EQ(machine.phase(), RunMachine::Phase::kCommitting);
  machine.On(ClientsJoined{away}, fleet.now);
  fleet.now = 3000;  // they are gone
  fleet.Poll("stays");
  machine.On(CommitDone{}, fleet.now);
  ASSERT_EQ(machine.phase(), RunMachine::Phase::kWaiting);
  const std::vector<Action> actions = fleet.Poll("stays");
  EXPECT_TRUE(std::ranges::any_of(actions, [](const Action& action) {
    const auto* const wake = std::get_if<WakeAt>(&action);
    return wake != nullptr && wake->time == 8000;
  }));
  for (fleet.now = 3500; fleet.now < 8000; fleet.now += 500) fleet.Poll("stays");
  EXPECT_EQ(machine.phase(), RunMachine::Phase::kWaiting);
  machine.On(Tick{}, 8000);
  EXPECT_EQ(machine.phase(), RunMachine::Phase::kCommitting);
  EXPECT_THAT(machine.leases(), ::testing::IsEmpty());
  // The next one waits anew, and one of them who is back ends the wait.
  machine.On(CommitDone{}, 8000);
  ASSERT_EQ(machine.phase(), RunMachine::Phase::kWaiting);
  for (const std::string& client_id : away) machine.On(Polled{client_id}, 8001);
  EXPECT_EQ(machine.phase(), RunMachine::Phase::kTraining);
}

TEST(RunMachineSelectionTest, WhoIsWaitedFor_IsSaidByTheirTags) {
  RunRules rules;
  rules.run_id = "run";
  rules.policy = {2, 2};
  rules.min_clients = 3;
  rules.wanted_as = " tagged 'icu'";
  auto machine = RunMachine::Create(rules, {});
  ASSERT_OK(machine);
  machine->On(ClientsJoined{{"a"}}, 0);
  EXPECT_EQ(machine->Awaited(0), "1 of 3 clients; round 1 waits for 2 more tagged 'icu'");
  machine->On(ClientsJoined{{"b"}}, 0);
  EXPECT_EQ(machine->Awaited(0), "2 of 3 clients; round 1 waits for one more tagged 'icu'");
}

}  // namespace
}  // namespace rivulet
