// Tasks of several steps, with a barrier behind each but the last.
#include <algorithm>

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
  explicit SteppedRun(Barriers barriers, int64_t min_reports = 2, int64_t lease_ms = 0) {
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

TEST(RunMachineStepsTest, BarrierThatCannotBePassed_IsRefused) {
  RunRules rules;
  rules.run_id = "run";
  rules.barriers = {{.threshold = 2}};
  EXPECT_THAT(RunMachine::Create(rules, {}),
              testing::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cannot be passed")));
}

}  // namespace
}  // namespace rivulet
