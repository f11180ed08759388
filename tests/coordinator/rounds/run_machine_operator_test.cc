// Operators' commands to a run: pause, resume, end after the open round, end at once, and removal of a client.
#include <algorithm>

#include "coordinator/rounds/run_machine.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Steer = Operator::Command;

struct SteeredRun {
  explicit SteeredRun(bool latest = false, int64_t names = 2) {
    RunRules rules;
    rules.run_id = "run";
    rules.rounds = 3;
    rules.policy = {2, 2};
    if (latest) rules.policy = {2, 2, RoundPolicy::BasePolicy::kLatest, 5, true};
    rules.min_clients = names;
    rules.deadline_ms = latest ? 0 : 1000;
    rules.max_attempts = 1;
    auto created = RunMachine::Create(rules, RunStart{});
    EXPECT_OK(created);
    machine = *std::move(created);
    ClientsJoined joined;
    for (int64_t i = 0; i < names; ++i) joined.client_ids.push_back(fmt::format("c{}", i));
    On(joined);
  }
  std::vector<std::string> On(const Event& event, TimeMs now = 0) {
    std::vector<std::string> lines;
    for (const Action& action : machine->On(event, now)) lines.push_back(Describe(action, "run"));
    return lines;
  }
  std::vector<std::string> Deliver(const std::string& client_id) {
    const Lease* const lease = machine->LeaseOf(client_id);
    EXPECT_NE(lease, nullptr) << client_id;
    if (lease == nullptr) return {};
    const TaskId task = lease->task;
    On(StepReported{client_id, task});
    EXPECT_THAT(On(StageDone{task}), ElementsAre(HasSubstr("fold ")));
    return On(FoldDone{task});
  }
  RunMachine::Phase phase() const { return machine->phase(); }

  std::optional<RunMachine> machine;
};

TEST(RunMachineOperatorTest, Pause_OpenRoundIsMadeAndNothingIsDrawnAfterIt) {
  SteeredRun run;
  EXPECT_THAT(run.On(Operator{Steer::kPause}), IsEmpty());
  EXPECT_THAT(run.On(Polled{"c0"}), ElementsAre("offer-again r1 a1 c0#0")) << "what is drawn is given out";
  run.Deliver("c0");
  EXPECT_THAT(run.Deliver("c1"), Contains(HasSubstr("commit r1 a1")));
  EXPECT_THAT(run.On(CommitDone{}), IsEmpty());
  EXPECT_THAT(run.On(Tick{}, 100'000), IsEmpty());
  EXPECT_EQ(run.phase(), RunMachine::Phase::kWaiting);
  EXPECT_EQ(run.machine->Awaited(0), "the run is paused by its operator; round 2 starts when it is resumed");
  EXPECT_THAT(run.On(Operator{Steer::kResume}), Contains("offer r2 a1 c0#0"));
  EXPECT_FALSE(run.machine->paused());
}

// One update is in, nothing is out, and nobody else may be asked: that is no reason to give the round up.
TEST(RunMachineOperatorTest, Pause_OfARunFromTheLatestVersion_KeepsWhatHasComeUntilItIsResumed) {
  SteeredRun run(true, 4);
  const std::vector<Lease> out = run.machine->leases();
  ASSERT_EQ(out.size(), 2u);
  run.On(Operator{Steer::kPause});
  EXPECT_THAT(run.Deliver(out[0].client_id), IsEmpty()) << "nobody is asked in its place";
  EXPECT_THAT(run.On(StepReported{out[1].client_id, out[1].task, 0, true, "its disk is full"}), IsEmpty());
  EXPECT_EQ(run.phase(), RunMachine::Phase::kTraining);
  EXPECT_THAT(run.On(Operator{Steer::kResume}), Contains(HasSubstr("offer r1 a1 ")));
  EXPECT_EQ(run.machine->CountInState(Lease::State::kFolded), 1);
}

TEST(RunMachineOperatorTest, FinishRound_EndsWhenTheOpenRoundIsMade) {
  SteeredRun run;
  run.On(Operator{Steer::kFinishRound});
  EXPECT_FALSE(run.machine->over());
  run.Deliver("c0");
  run.Deliver("c1");
  run.On(CommitDone{});
  EXPECT_EQ(run.phase(), RunMachine::Phase::kStopped);
  EXPECT_EQ(run.machine->committed_round(), 1);
}

TEST(RunMachineOperatorTest, FinishRound_WhereNoneIsOpen_EndsAtOnce) {
  SteeredRun run;
  run.On(Operator{Steer::kPause});
  run.Deliver("c0");
  run.Deliver("c1");
  run.On(CommitDone{});
  run.On(Operator{Steer::kFinishRound});
  EXPECT_EQ(run.phase(), RunMachine::Phase::kStopped);
}

TEST(RunMachineOperatorTest, FinishRound_OfAPausedRunFromTheLatestVersion_AsksWhoeverIsMissing) {
  SteeredRun run(true, 4);
  const std::vector<Lease> out = run.machine->leases();
  run.On(Operator{Steer::kPause});
  run.Deliver(out[0].client_id);
  run.On(StepReported{out[1].client_id, out[1].task, 0, true, "its disk is full"});
  EXPECT_THAT(run.On(Operator{Steer::kFinishRound}), Contains(HasSubstr("offer r1 a1 ")));
}

// Of three rounds that were planned the first was enough.
TEST(RunMachineOperatorTest, CommitDone_ThatIsTheLast_FinishesTheRun) {
  SteeredRun run;
  run.Deliver("c0");
  run.Deliver("c1");
  EXPECT_THAT(run.On(CommitDone{.last = true}), IsEmpty());
  EXPECT_EQ(run.phase(), RunMachine::Phase::kFinished);
  EXPECT_THAT(run.On(Polled{"c0"}), ElementsAre("refuse c0: the run has finished after round 1"));
}

TEST(RunMachineOperatorTest, CommitDone_ThatIsTheLast_LetsGoOfTasksThatOutliveVersions) {
  SteeredRun run(true, 4);
  const std::vector<Lease> out = run.machine->leases();
  ASSERT_EQ(out.size(), 2u);
  run.Deliver(out[0].client_id);
  const std::vector<Lease> then = run.machine->leases();
  const auto other = std::ranges::find(then, out[1].client_id, &Lease::client_id);
  ASSERT_NE(other, then.end());
  EXPECT_THAT(run.Deliver(out[1].client_id), Contains(HasSubstr("commit r1 a1")));
  run.On(CommitDone{.last = true});
  EXPECT_EQ(run.phase(), RunMachine::Phase::kFinished);
  EXPECT_THAT(run.machine->leases(), IsEmpty());
  EXPECT_THAT(run.machine->NeededVersions(), IsEmpty());
}

TEST(RunMachineOperatorTest, Stop_EndsAtOnce) {
  SteeredRun run;
  run.On(Operator{Steer::kStop});
  EXPECT_EQ(run.phase(), RunMachine::Phase::kStopped);
}

TEST(RunMachineOperatorTest, Left_SaysWhyItsLeaseEnded) {
  SteeredRun run;
  run.On(ClientLeft{"c0", "it was banned: it sends noise"});
  ASSERT_NE(run.machine->LeaseOf("c0"), nullptr);
  EXPECT_EQ(run.machine->LeaseOf("c0")->state, Lease::State::kDropped);
  EXPECT_EQ(run.machine->LeaseOf("c0")->reason, "it was banned: it sends noise");
  EXPECT_FALSE(run.machine->knows("c0"));
  // All two were to be there before the first round; whoever was sent away is not waited for.
  EXPECT_THAT(run.Deliver("c1"), Contains(HasSubstr("abandon r1 a1")));
}

TEST(RunMachineOperatorTest, Left_IsNotWaitedForByLaterRounds) {
  SteeredRun run;
  run.Deliver("c0");
  run.Deliver("c1");
  run.On(ClientLeft{"c0", "it was banned"});
  EXPECT_THAT(run.On(CommitDone{}), Contains("offer r2 a1 c1#0"));
}

}  // namespace
}  // namespace rivulet
