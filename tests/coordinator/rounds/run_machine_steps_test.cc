// Tasks of several steps, with a barrier after each but the last.
#include <algorithm>
#include <functional>

#include "coordinator/rounds/run_machine.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Barriers = std::vector<BufferRules::Barrier>;

struct SteppedRun {
  explicit SteppedRun(Barriers barriers, int64_t min_reports = 2, int64_t lease_ms = 0, int sum_step = -1) {
    RunRules rules;
    rules.run_id = "run";
    rules.seed = 7;
    rules.rounds = 1;
    rules.policy = {3, 3};
    rules.policy.replace = true;
    rules.min_clients = 6;
    rules.min_reports = min_reports;
    rules.deadline_ms = 1000;
    rules.max_attempts = 2;
    rules.lease_ms = lease_ms;
    rules.barriers = std::move(barriers);
    rules.sum_step = sum_step;
    rules_ = rules;
    auto created = RunMachine::Create(rules, RunStart{});
    EXPECT_OK(created);
    machine = *std::move(created);
    machine->On(ClientsJoined{{"c0", "c1", "c2", "c3", "c4", "c5"}}, 0);
    for (const Lease& lease : machine->leases()) names.push_back(lease.client_id);
  }
  std::vector<std::string> On(const Event& event, TimeMs now = 0) {
    std::vector<std::string> lines;
    for (const Action& action : machine->On(event, now)) lines.push_back(Describe(action, "run"));
    std::erase(lines, "wake");
    return lines;
  }
  const Lease& At(const std::string& name) const { return *machine->LeaseOf(name); }
  // Reports a client's step, and what that brought about.
  std::vector<std::string> Report(const std::string& name, int step, TimeMs now = 0) {
    EXPECT_THAT(On(StepReported{name, At(name).task, step}, now), ElementsAre(HasSubstr("stage ")));
    return On(StageDone{At(name).task}, now);
  }
  // Its update is folded, at the sum's step.
  std::vector<std::string> Sum(const std::string& name, int step, TimeMs now = 0) {
    EXPECT_THAT(Report(name, step, now), ElementsAre(HasSubstr("fold ")));
    return On(FoldDone{At(name).task}, now);
  }
  RunRules rules_;
  std::optional<RunMachine> machine;
  std::vector<std::string> names;
};

TEST(RunMachineStepsTest, AllReportAStep_TheNextBeginsForAll) {
  SteppedRun run(Barriers(2));
  for (const int step : {0, 1}) {
    EXPECT_THAT(run.Report(run.names[0], step), IsEmpty());
    EXPECT_EQ(run.At(run.names[0]).state, Lease::State::kReported);
    EXPECT_THAT(run.On(Polled{run.names[0]}), ElementsAre(HasSubstr("wait ")));
    EXPECT_THAT(run.Report(run.names[1], step), IsEmpty());
    EXPECT_THAT(run.Report(run.names[2], step), ::testing::SizeIs(3));
    for (const std::string& name : run.names) EXPECT_EQ(run.At(name).step, step + 1);
  }
  // A poll that names the step before hears of the next one.
  EXPECT_THAT(run.On(SitePolled{run.names[0], SitePolled::Serves::kItself, {{run.At(run.names[0]).task, false, 1}}}),
              ElementsAre(HasSubstr("offer-again ")));
  EXPECT_THAT(run.On(SitePolled{run.names[0], SitePolled::Serves::kItself, {{run.At(run.names[0]).task, false, 2}}}),
              ElementsAre(HasSubstr("wait ")));
  // Also of one that wants no other task.
  EXPECT_THAT(run.On(SitePolled{
                  run.names[0], SitePolled::Serves::kItself, {{run.At(run.names[0]).task, false, 1}}, /*want=*/0}),
              ElementsAre(HasSubstr("offer-again ")));
  for (const std::string& name : run.names) {
    EXPECT_THAT(run.Report(name, 2), ElementsAre(HasSubstr("fold ")));
    run.On(FoldDone{run.At(name).task});
  }
  EXPECT_EQ(run.machine->phase(), RunMachine::Phase::kCommitting);
}

TEST(RunMachineStepsTest, StepThatIsNotItsTurn_IsRefused) {
  SteppedRun run(Barriers(1));
  const TaskId task = run.At(run.names[0]).task;
  EXPECT_THAT(run.On(StepReported{run.names[0], task, 1}), ElementsAre(HasSubstr("is at step 0")));
  run.Report(run.names[0], 0);
  EXPECT_THAT(run.On(StepReported{run.names[0], task, 0}), ElementsAre(HasSubstr("step 0 of this task is reported")));
  run.Report(run.names[1], 0);
  run.Report(run.names[2], 0);
  EXPECT_THAT(run.On(StepReported{run.names[0], task, 0}), ElementsAre(HasSubstr("step 0 of this task is reported")));
}

TEST(RunMachineStepsTest, WhoFailsAtTheFirstStep_IsReplaced_AndBehindItNobodyIs) {
  SteppedRun run(Barriers(1));
  EXPECT_THAT(run.On(StepReported{run.names[0], run.At(run.names[0]).task, 0, true, "no"}),
              ElementsAre(HasSubstr("offer r1 a1 ")));
  const std::string instead = run.machine->leases().back().client_id;
  run.Report(run.names[1], 0);
  run.Report(run.names[2], 0);
  run.Report(instead, 0);
  ASSERT_EQ(run.At(instead).step, 1);
  EXPECT_THAT(run.On(StepReported{instead, run.At(instead).task, 1, true, "no"}), IsEmpty());
  EXPECT_THAT(run.machine->leases(), ::testing::SizeIs(4));
}

TEST(RunMachineStepsTest, Threshold_LetsTheNextStepBeginWithoutTheSlowest) {
  SteppedRun run(Barriers{{.threshold = 2}});
  EXPECT_THAT(run.Report(run.names[1], 0), IsEmpty());
  EXPECT_THAT(run.Report(run.names[2], 0), ::testing::SizeIs(2));
  EXPECT_EQ(run.At(run.names[0]).state, Lease::State::kDropped);
  EXPECT_EQ(run.At(run.names[0]).reason, "step 1 began without it");
}

TEST(RunMachineStepsTest, DeadlineOfAStep_LetsThoseGoOnWhoHaveReported) {
  SteppedRun run(Barriers{{.deadline_ms = 100}});
  run.Report(run.names[1], 0);
  run.Report(run.names[2], 0);
  EXPECT_THAT(run.On(Tick{}, 99), IsEmpty());
  EXPECT_THAT(run.On(Tick{}, 100), ::testing::SizeIs(2));
  EXPECT_EQ(run.At(run.names[0]).state, Lease::State::kDropped);
  EXPECT_EQ(run.machine->deadline(), 1000);
}

TEST(RunMachineStepsTest, TooFewAtABarrier_AbandonTheAttempt) {
  SteppedRun run(Barriers{{.deadline_ms = 100}});
  run.Report(run.names[1], 0);
  EXPECT_THAT(run.On(Tick{}, 100), Contains(HasSubstr("abandon r1 a1: 0 of 2")));
  EXPECT_EQ(run.At(run.names[1]).reason, "too few have reported step 0");
}

TEST(RunMachineStepsTest, DeadlineOfTheAttempt_EndsItAtABarrierToo) {
  SteppedRun run(Barriers(1));
  for (const std::string& name : {run.names[1], run.names[2]}) run.Report(name, 0);
  EXPECT_THAT(run.On(Tick{}, 1000), Contains(HasSubstr("abandon r1 a1")));
}

TEST(RunMachineStepsTest, SiteThatGoesSilentBehindABarrier_LosesItsTask) {
  SteppedRun run(Barriers(1), 2, 50);
  const auto offers = run.On(SitePolled{"s", SitePolled::Serves::kAny, {}, 1});
  ASSERT_EQ(offers.size(), 1u);
  TaskId task;
  for (const Lease& lease : run.machine->leases()) {
    if (lease.site == "s") task = lease.task;
  }
  run.On(StepReported{"s", task, 0});
  run.On(StageDone{task});
  for (const std::string& name : run.names) {
    if (run.At(name).site.empty()) run.Report(name, 0);
  }
  ASSERT_EQ(run.machine->FindLease(task)->step, 1);
  run.On(Tick{}, 51);
  EXPECT_EQ(run.machine->FindLease(task)->state, Lease::State::kLapsed);
}

// ---- A sum before the last step: 0 keys, 1 words, 2 agree, 3 reveal ------------------------------------------------

constexpr int kSum = 1;

// A run whose three clients are at `step`.
SteppedRun AtStep(int step, int64_t lease_ms = 0, Barriers barriers = Barriers(3)) {
  SteppedRun run(std::move(barriers), 2, lease_ms, kSum);
  for (int s = 0; s < step; ++s) {
    for (const std::string& name : run.names) s == kSum ? run.Sum(name, s) : run.Report(name, s);
  }
  for (const std::string& name : run.names) EXPECT_EQ(run.At(name).step, step);
  return run;
}

TEST(RunMachineSumStepTest, IsFoldedAtItsStep_AndCommittedWhenItIsSettled) {
  SteppedRun run = AtStep(1);
  EXPECT_THAT(run.Sum(run.names[0], 1), IsEmpty());
  EXPECT_EQ(run.At(run.names[0]).state, Lease::State::kReported);
  EXPECT_THAT(run.On(StepReported{run.names[0], run.At(run.names[0]).task, 1}),
              ElementsAre(HasSubstr("step 1 of this task is reported already")));
  EXPECT_THAT(run.Sum(run.names[1], 1), IsEmpty());
  EXPECT_THAT(run.Sum(run.names[2], 1), ::testing::SizeIs(3));
  for (const std::string& name : run.names) run.Report(name, 2);
  EXPECT_THAT(run.Report(run.names[0], 3), IsEmpty());
  std::vector<std::string> settled = run.On(SumSettled{});
  ASSERT_THAT(settled, ElementsAre("close r1 a1", HasSubstr("commit r1 a1")));
  for (const std::string& name : run.names) {
    EXPECT_THAT(settled[1], HasSubstr(name));
    EXPECT_EQ(run.At(name).state, Lease::State::kFolded);
    EXPECT_EQ(run.At(name).reason, "");
  }
}

// A fold that has begun is in the set: the next step waits for it.
TEST(RunMachineSumStepTest, NextStepWaitsForAFoldUnderWay) {
  SteppedRun run = AtStep(1, 0, {{}, {.deadline_ms = 100}, {}});
  run.Sum(run.names[0], 1);
  run.Sum(run.names[1], 1);
  EXPECT_THAT(run.Report(run.names[2], 1), ElementsAre(HasSubstr("fold ")));
  EXPECT_THAT(run.On(Tick{}, 100), IsEmpty());
  EXPECT_THAT(run.On(FoldDone{run.At(run.names[2]).task}, 101), ::testing::SizeIs(3));
}

TEST(RunMachineSumStepTest, BeforeItsBarrierALostClientIsOut_AndBehindItItIsFolded) {
  SteppedRun run = AtStep(1, 0, {{}, {.deadline_ms = 100}, {.deadline_ms = 100}});
  run.Sum(run.names[0], 1);
  run.Sum(run.names[1], 1);
  EXPECT_THAT(run.On(Tick{}, 100), ::testing::SizeIs(2));
  EXPECT_EQ(run.At(run.names[2]).state, Lease::State::kDropped);
  EXPECT_EQ(run.At(run.names[2]).reason, "step 1 was not reported before its deadline");
  // One agrees, the other is silent.
  run.Report(run.names[0], 2, 100);
  EXPECT_THAT(run.On(Tick{}, 200), ::testing::SizeIs(1));
  EXPECT_EQ(run.At(run.names[1]).state, Lease::State::kFolded);
  EXPECT_EQ(run.At(run.names[0]).step, 3);
  EXPECT_THAT(run.On(StepReported{run.names[1], run.At(run.names[1]).task, 2}, 200),
              ElementsAre(HasSubstr("this update is folded already")));
  const std::vector<std::string> settled = run.On(SumSettled{}, 200);
  ASSERT_THAT(settled, ElementsAre("close r1 a1", HasSubstr("commit r1 a1")));
  EXPECT_THAT(settled[1], HasSubstr(run.names[1]));
  EXPECT_THAT(settled[1], ::testing::Not(HasSubstr(run.names[2])));
}

// However a client is lost behind the barrier, its update stays where it is.
TEST(RunMachineSumStepTest, EveryWayToBeLostBehindTheBarrier_LeavesTheUpdateInTheSum) {
  const auto lose = [](const std::function<void(SteppedRun&, const std::string&)>& how) {
    SteppedRun run = AtStep(2, 50);
    const std::string lost = run.names[1];
    how(run, lost);
    EXPECT_THAT(run.At(lost).state, ::testing::AnyOf(Lease::State::kFolded, Lease::State::kLapsed));
    run.Report(run.names[0], 2, 40);
    run.Report(run.names[2], 2, 40);
    EXPECT_EQ(run.At(lost).state, Lease::State::kFolded);
    EXPECT_EQ(run.At(run.names[0]).step, 3);
    const std::vector<std::string> settled = run.On(SumSettled{}, 40);
    EXPECT_THAT(settled, Contains(::testing::AllOf(HasSubstr("commit r1 a1"), HasSubstr(lost))));
  };
  lose([](SteppedRun& run, const std::string& lost) { run.On(ClientLeft{lost}); });
  lose([](SteppedRun& run, const std::string& lost) {
    run.On(StepReported{lost, run.At(lost).task, 2, true, "the coordinator lies"});
  });
  lose([](SteppedRun& run, const std::string& lost) {
    run.On(StepReported{lost, run.At(lost).task, 2});
    run.On(StageDone{run.At(lost).task, false, "no signature"});
  });
}

TEST(RunMachineSumStepTest, SilentForALeaseBehindTheBarrier_IsFolded) {
  SteppedRun run = AtStep(2, 50);
  run.Report(run.names[0], 2, 30);
  run.Report(run.names[2], 2, 30);
  EXPECT_EQ(run.At(run.names[0]).state, Lease::State::kReported);
  EXPECT_THAT(run.On(Tick{}, 51), ::testing::SizeIs(2));
  EXPECT_EQ(run.At(run.names[1]).state, Lease::State::kFolded);
}

TEST(RunMachineSumStepTest, NobodyLeftBeforeItIsSettled_AbandonsTheAttempt) {
  SteppedRun run = AtStep(3);
  for (size_t i = 0; i < 2; ++i) EXPECT_THAT(run.Report(run.names[i], 3), IsEmpty());
  EXPECT_THAT(
      run.Report(run.names[2], 3),
      ElementsAre("close r1 a1", HasSubstr("too few answered step 3, so that the sum of 3 updates cannot be read")));
}

TEST(RunMachineSumStepTest, DeadlineBehindTheSum_AbandonsTheAttempt) {
  SteppedRun run = AtStep(2);
  EXPECT_THAT(run.On(Tick{}, 1000), Contains(HasSubstr("abandon r1 a1: too few answered step 2")));
}

TEST(RunMachineSumStepTest, SettledAsBad_AbandonsAtOnce_AtEachStep) {
  for (const int step : {0, 1, 2, 3}) {
    SteppedRun run = AtStep(step);
    EXPECT_THAT(run.On(SumSettled{false, "c1 lies"}), ElementsAre("close r1 a1", "abandon r1 a1: c1 lies"));
    EXPECT_EQ(run.machine->phase(), RunMachine::Phase::kAbandoning);
    EXPECT_THAT(run.On(SumSettled{false, "c1 lies"}), IsEmpty());
  }
  // But not under a fold.
  SteppedRun run = AtStep(1);
  run.Report(run.names[0], 1);
  EXPECT_THAT(run.On(SumSettled{false, "c1 lies"}), IsEmpty());
  EXPECT_THAT(run.On(FoldDone{run.At(run.names[0]).task}), ElementsAre("close r1 a1", "abandon r1 a1: c1 lies"));
}

TEST(RunMachineSumStepTest, SettledBeforeTheSumIsMade_MeansNothing) {
  SteppedRun run = AtStep(1);
  EXPECT_THAT(run.On(SumSettled{}), IsEmpty());
  EXPECT_EQ(run.machine->phase(), RunMachine::Phase::kTraining);
}

TEST(RunMachineSumStepTest, Snapshot_KnowsWhoseUpdatesAreInTheSum) {
  SteppedRun run = AtStep(1);
  run.Sum(run.names[0], 1);
  ASSERT_OK_AND_ASSIGN(RunMachine again, RunMachine::Restore(run.rules_, run.machine->Save()));
  EXPECT_TRUE(again.LeaseOf(run.names[0])->summed);
  EXPECT_FALSE(again.LeaseOf(run.names[1])->summed);
  EXPECT_EQ(again.Save(), run.machine->Save());
}

TEST(RunMachineSumStepTest, OverSelectionAndAStepThatIsNone_AreRefused) {
  SteppedRun run(Barriers(3), 2, 0, kSum);
  RunRules rules = run.rules_;
  rules.policy.in_flight = 4;
  EXPECT_THAT(RunMachine::Create(rules, {}),
              testing::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("server.over_selection")));
  rules = run.rules_;
  rules.sum_step = 4;
  EXPECT_THAT(RunMachine::Create(rules, {}), testing::StatusIs(absl::StatusCode::kInvalidArgument,
                                                               HasSubstr("step 4 of 4 cannot be that of the sum")));
}

// A cohort of its own takes the figures of a version through the same steps, beside the training of the next one.
TEST(RunMachineSumStepTest, MeasuringGoesThroughTheSteps_BesideTheTraining) {
  for (const bool readable : {true, false}) {
    SCOPED_TRACE(readable);
    RunRules rules = SteppedRun(Barriers(3), 2, 0, kSum).rules_;
    rules.rounds = 2;
    rules.evaluation = {1, 3, 2};
    RunStart start;
    start.committed_round = 1;
    start.attempt = 4;
    start.attempts_before = 3;
    start.evaluations = {1};
    for (int i = 0; i < 6; ++i) start.candidates.push_back({fmt::format("c{}", i)});
    ASSERT_OK_AND_ASSIGN(RunMachine machine, RunMachine::Create(rules, std::move(start)));
    for (int i = 0; i < 6; ++i) machine.On(Polled{fmt::format("c{}", i)}, 0);
    const std::vector<Lease> measuring = machine.leases(TaskKind::kEvaluate);
    ASSERT_THAT(measuring, ::testing::SizeIs(3));
    // No process gives a task in steps the name that another one gave.
    EXPECT_EQ(TaskNameOf(measuring[0].task, "run")->attempt, 4);
    std::vector<Action> last;
    for (int step = 0; step < 4; ++step) {
      for (const Lease& lease : measuring) {
        machine.On(StepReported{lease.client_id, lease.task, step}, 0);
        machine.On(StageDone{lease.task}, 0);
        if (step == kSum) machine.On(FoldDone{lease.task}, 0);
        if (step == 3) break;
      }
    }
    EXPECT_EQ(machine.phase(), RunMachine::Phase::kTraining);
    EXPECT_THAT(machine.On(SumSettled{}, 0), IsEmpty()) << "the training's sum has not begun";
    for (const Action& action : machine.On(SumSettled{readable, "no share fits", TaskKind::kEvaluate}, 0)) {
      if (std::holds_alternative<Evaluated>(action)) last.push_back(action);
    }
    ASSERT_THAT(last, ::testing::SizeIs(1));
    const Evaluated& evaluated = std::get<Evaluated>(last[0]);
    EXPECT_EQ(evaluated.reason, readable ? "" : "no share fits");
    EXPECT_THAT(evaluated.tasks, ::testing::SizeIs(3));
  }
}

// Three clients, two of them through the aggregator "t": it passes on their answers, and adds their words.
class SteppedAggregatorTest : public ::testing::Test {
 protected:
  SteppedAggregatorTest() {
    RunRules rules = SteppedRun(Barriers(2), 2, 1000, kSum).rules_;
    rules.min_clients = 3;
    rules.deadline_ms = 0;
    rules.policy.replace = false;
    machine_ = *RunMachine::Create(rules, RunStart{});
    machine_->On(ClientsJoined{{"c0", "c1"}, "t"}, 0);
    machine_->On(ClientsJoined{{"c2"}, ""}, 0);
    Poll({"c0", "c1"});
  }
  std::vector<std::string> Poll(std::vector<std::string> names, std::vector<SitePolled::Holding> working_on = {}) {
    std::vector<std::string> lines;
    const SitePolled poll{"t", SitePolled::Serves::kNames, std::move(working_on), 9, std::move(names)};
    for (const Action& action : machine_->On(poll, 0)) lines.push_back(Describe(action, "run"));
    std::erase(lines, "wake");
    return lines;
  }
  TaskId TaskOf(const std::string& name) const { return machine_->LeaseOf(name)->task; }
  Lease::State StateOf(const std::string& name) const { return machine_->LeaseOf(name)->state; }
  void Report(const std::string& name, int step) {
    machine_->On(StepReported{name == "c2" ? name : "t", TaskOf(name), step}, 0);
    machine_->On(StageDone{TaskOf(name)}, 0);
    if (step == kSum && name == "c2") machine_->On(FoldDone{TaskOf(name)}, 0);
  }
  void ReportAll(int step) {
    for (const char* name : {"c0", "c1", "c2"}) Report(name, step);
  }
  std::optional<RunMachine> machine_;
};

TEST_F(SteppedAggregatorTest, NextStepIsGivenOnce_WithoutAskingForIt) {
  ReportAll(0);
  EXPECT_THAT(Poll({}), ElementsAre(HasSubstr("offer-again "), HasSubstr("offer-again ")));
  EXPECT_THAT(Poll({}), ElementsAre(HasSubstr("wait ")));
  // A poll that names the step before has not heard of it.
  EXPECT_THAT(Poll({}, {{TaskOf("c0"), false, 0}}), ElementsAre(HasSubstr("offer-again ")));
  EXPECT_THAT(Poll({"c0"}, {{TaskOf("c0"), false, 1}}), ElementsAre(HasSubstr("wait ")));
}

// Another process of it knows nothing, and has to know of tasks whose clients wait.
TEST_F(SteppedAggregatorTest, AnsweredTask_IsGivenToWhoeverDoesNotNameIt) {
  Report("c0", 0);
  EXPECT_THAT(Poll({"c0"}), ElementsAre(HasSubstr("offer-again ")));
  EXPECT_EQ(StateOf("c0"), Lease::State::kReported);
  EXPECT_THAT(Poll({"c0"}, {{TaskOf("c0"), true, 0}}), ElementsAre(HasSubstr("wait ")));
}

TEST_F(SteppedAggregatorTest, WordsAreAskedForWhenNothingElseIsAwaited_AndTheNextStepBegins) {
  ReportAll(0);
  Report("c2", kSum);
  EXPECT_EQ(StateOf("c2"), Lease::State::kReported);
  Poll({}, {{TaskOf("c0"), true, kSum}});
  EXPECT_EQ(StateOf("c0"), Lease::State::kHeld);
  EXPECT_THAT(Poll({}, {{TaskOf("c0"), true, kSum}, {TaskOf("c1"), true, kSum}}), ElementsAre(HasSubstr("hand-over ")));
  machine_->On(PartialReported{"t", {TaskOf("c0"), TaskOf("c1")}}, 0);
  EXPECT_EQ(StateOf("c1"), Lease::State::kFolding);
  machine_->On(Merged{{TaskOf("c0"), TaskOf("c1")}}, 0);
  for (const char* name : {"c0", "c1", "c2"}) {
    EXPECT_EQ(machine_->LeaseOf(name)->step, 2) << name;
    EXPECT_TRUE(machine_->LeaseOf(name)->summed) << name;
  }
  Report("c0", 2);
  machine_->On(SumSettled{}, 0);
  EXPECT_EQ(machine_->phase(), RunMachine::Phase::kCommitting);
}

TEST_F(SteppedAggregatorTest, LostWithTheWordsItHeld_ItsClientsDropOut) {
  ReportAll(0);
  Report("c2", kSum);
  Report("c1", kSum);
  machine_->On(FoldDone{TaskOf("c1")}, 0);  // it came alone, before
  Poll({}, {{TaskOf("c0"), true, kSum}});
  machine_->On(SiteLost{"t"}, 0);
  EXPECT_EQ(StateOf("c0"), Lease::State::kDropped);
  EXPECT_EQ(machine_->LeaseOf("c2")->step, 2) << "the others go on";
}

TEST_F(SteppedAggregatorTest, PartialAtAnotherStep_OrTwice_IsRefused) {
  const auto report = [&] {
    std::vector<std::string> lines;
    for (const Action& action : machine_->On(PartialReported{"t", {TaskOf("c0")}}, 0))
      lines.push_back(Describe(action, "run"));
    return lines;
  };
  EXPECT_THAT(report(), ElementsAre(HasSubstr("is not at the step of its sum")));
  ReportAll(0);
  EXPECT_THAT(report(), ElementsAre(HasSubstr("fold ")));
  machine_->On(Merged{{TaskOf("c0")}}, 0);
  EXPECT_THAT(report(), ElementsAre(HasSubstr("its words are in the sum")));
  Report("c1", kSum);
  machine_->On(FoldDone{TaskOf("c1")}, 0);
  Report("c2", kSum);
  machine_->On(FoldDone{TaskOf("c2")}, 0);
  EXPECT_EQ(machine_->LeaseOf("c0")->step, 2);
  EXPECT_THAT(report(), ElementsAre(HasSubstr("its words are in the sum"))) << "when the next step has begun";
}

// Whatever earlier processes gave out, no attempt of this one has its number; and it draws whom the one would have
// drawn that was cut off.
TEST(RunMachineStepsTest, AttemptsOfALaterProcess_HaveOtherNumbers_AndTheSameCohorts) {
  RunRules rules = SteppedRun(Barriers(1)).rules_;
  rules.rounds = 2;
  const auto names_of = [](const RunMachine& machine) {
    std::vector<std::string> names;
    for (const Lease& lease : machine.leases()) names.push_back(lease.client_id);
    return names;
  };
  const auto cohort = [&](RunStart start, int64_t rounds) {
    for (int i = 0; i < 6; ++i) start.candidates.push_back({fmt::format("c{}", i)});
    auto machine = RunMachine::Create(rules, std::move(start));
    EXPECT_OK(machine);
    for (int i = 0; i < 6; ++i) machine->On(Polled{fmt::format("c{}", i)}, 0);
    for (; rounds > 1; --rounds) {
      for (int step = 0; step < 2; ++step) {
        for (const std::string& name : names_of(*machine)) {
          const TaskId task = machine->LeaseOf(name)->task;
          machine->On(StepReported{name, task, step}, 0);
          machine->On(StageDone{task}, 0);
          machine->On(FoldDone{task}, 0);
        }
      }
      machine->On(CommitDone{true}, 0);
    }
    return std::pair(machine->attempt(), names_of(*machine));
  };
  for (const int64_t rounds : {1, 2}) {
    const auto [first, drawn] = cohort({}, rounds);
    EXPECT_EQ(first, 1);
    EXPECT_THAT(drawn, ::testing::SizeIs(3));
    EXPECT_EQ(cohort({.attempt = 4, .attempts_before = 3}, rounds), std::pair(int64_t{4}, drawn));
  }
  EXPECT_THAT(RunMachine::Create(rules, {.attempt = 3, .attempts_before = 3}),
              testing::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("with attempt 3")));
}

TEST(RunMachineStepsTest, BarrierThatCannotBePassed_IsRefused) {
  RunRules rules;
  rules.run_id = "run";
  rules.barriers = {{.threshold = 2}};
  EXPECT_THAT(RunMachine::Create(rules, {}),
              testing::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cannot be passed")));
}

}  // namespace
}  // namespace rivulet
