// Versions that clients measure beside training.
#include <algorithm>

#include "coordinator/rounds/run_machine.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr TaskKind kMeasured = TaskKind::kEvaluate;

struct MeasuredRun {
  explicit MeasuredRun(int64_t every, int64_t rounds = 3, int64_t deadline_ms = 0, int64_t lease_ms = 0) {
    rules.run_id = "run";
    rules.seed = 7;
    rules.rounds = rounds;
    rules.policy = {2, 2};
    rules.policy.replace = true;
    rules.min_clients = 6;
    rules.deadline_ms = deadline_ms;
    rules.lease_ms = lease_ms;
    rules.evaluation = {every, 2, 2};
    Start({});
    ClientsJoined joined;
    for (int i = 0; i < 6; ++i) joined.client_ids.push_back(fmt::format("c{}", i));
    machine->On(joined, 0);
  }
  void Start(RunStart start) {
    auto created = RunMachine::Create(rules, std::move(start));
    ASSERT_OK(created);
    machine = *std::move(created);
  }
  std::vector<std::string> On(const Event& event, TimeMs now = 0) {
    std::vector<std::string> lines;
    for (const Action& action : machine->On(event, now)) lines.push_back(Describe(action, "run"));
    return lines;
  }
  std::vector<std::string> Names(TaskKind kind) const {
    std::vector<std::string> names;
    for (const Lease& lease : machine->leases(kind)) names.push_back(lease.client_id);
    return names;
  }
  std::vector<std::string> Deliver(const Lease& lease, TimeMs now = 0) {
    On(StepReported{lease.client_id, lease.task}, now);
    EXPECT_THAT(On(StageDone{lease.task}, now), ElementsAre(HasSubstr("fold ")));
    return On(FoldDone{lease.task}, now);
  }
  // All that are open of a kind, and what the last of them brought about.
  std::vector<std::string> DeliverAll(TaskKind kind, TimeMs now = 0) {
    std::vector<std::string> lines;
    for (const Lease& lease : machine->leases(kind)) {
      if (!lease.resolved()) lines = Deliver(lease, now);
    }
    return lines;
  }
  std::vector<std::string> Train(TimeMs now = 0) {
    EXPECT_THAT(DeliverAll(TaskKind::kTrain, now), Contains(HasSubstr("commit r")));
    return On(CommitDone{}, now);
  }
  RunRules rules;
  std::optional<RunMachine> machine;
};

TEST(RunMachineEvaluationTest, VersionThatIsReady_IsMeasuredBesideTheNextRound) {
  MeasuredRun run(2);
  EXPECT_THAT(run.Train(), Not(Contains(HasSubstr(" e"))));
  EXPECT_FALSE(run.machine->Needs(1));
  const auto lines = run.Train();
  const auto asked = run.Names(kMeasured);
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_EQ(lines[0], fmt::format("offer e2 a1 {}#0", asked[0]));
  EXPECT_THAT(lines, Contains(HasSubstr("offer r3 a1 ")));
  EXPECT_TRUE(run.machine->Needs(2));
  const Lease lease = run.machine->leases(kMeasured)[0];
  EXPECT_EQ(lease.task, fmt::format("run-e2-a1-{}-0", asked[0]));
  EXPECT_EQ(lease.base_round, 2);
  EXPECT_EQ(*run.machine->FindLease(lease.task), lease);
  EXPECT_EQ(*run.machine->LeaseOf(asked[0], kMeasured), lease);
  // Its client trains first, where it was drawn for both.
  EXPECT_THAT(run.On(Polled{asked[0]}), ElementsAre(HasSubstr(asked[0])));
  const auto ended = run.DeliverAll(kMeasured);
  EXPECT_EQ(ended[0], "close e2 a1");
  EXPECT_THAT(ended[1], HasSubstr("evaluated e2 a1 c"));
  EXPECT_EQ(run.machine->phase(), RunMachine::Phase::kTraining);
  EXPECT_TRUE(run.machine->Needs(2)) << "its rows are not written";
  EXPECT_THAT(run.On(EvaluationDone{}), IsEmpty());
  EXPECT_FALSE(run.machine->Needs(2));
  EXPECT_THAT(run.machine->leases(kMeasured), IsEmpty());
}

TEST(RunMachineEvaluationTest, WithoutADeadline_WaitsForAsLongAsItTakes) {
  MeasuredRun run(1, 3, 0);
  run.Train(5'000);
  ASSERT_EQ(run.Names(kMeasured).size(), 2u);
  EXPECT_THAT(run.On(Tick{}, 10'000'000), IsEmpty());
  EXPECT_THAT(run.DeliverAll(kMeasured, 20'000'000), Contains(HasSubstr("evaluated e1 a1 c")));
}

TEST(RunMachineEvaluationTest, MeasuringOrNot_MovesNoDrawOfTraining) {
  std::vector<std::string> lines[2];
  for (const bool measured : {false, true}) {
    MeasuredRun run(measured ? 1 : 0, 4);
    while (run.machine->phase() == RunMachine::Phase::kTraining) {
      for (const Lease& lease : run.machine->leases()) lines[measured].push_back(lease.task);
      // One that has failed is replaced.
      const Lease lease = run.machine->leases()[0];
      run.On(StepReported{lease.client_id, lease.task, 0, true, "no data"});
      if (measured && run.machine->round() % 2 == 0) {
        for (const Lease& other : run.machine->leases(kMeasured)) run.Deliver(other);
        run.On(EvaluationDone{});
      }
      run.Train();
    }
  }
  EXPECT_EQ(lines[0], lines[1]);
  EXPECT_EQ(lines[0].size(), 8u);
}

TEST(RunMachineEvaluationTest, VersionIsNotKeptWaiting_AndEvaluationsFollowOneAnother) {
  MeasuredRun run(1);
  run.Train();
  run.Train();
  EXPECT_EQ(run.machine->committed_round(), 2);
  EXPECT_TRUE(run.machine->Needs(1));
  EXPECT_TRUE(run.machine->Needs(2));
  EXPECT_THAT(run.DeliverAll(kMeasured), Contains(HasSubstr("evaluated e1 a1 ")));
  EXPECT_THAT(run.On(EvaluationDone{}), Contains(HasSubstr("offer e2 a1 ")));
  EXPECT_FALSE(run.machine->Needs(1));
}

TEST(RunMachineEvaluationTest, EndOfTheRun_WaitsForWhatIsBeingMeasured) {
  MeasuredRun run(2, 1);
  EXPECT_THAT(run.Train(), Contains(HasSubstr("offer e1 a1 "))) << "the last version is measured in any case";
  EXPECT_EQ(run.machine->phase(), RunMachine::Phase::kEvaluating);
  const auto asked = run.Names(kMeasured);
  const auto other = std::find_if(asked.begin(), asked.end(), [&](const auto& name) { return name != asked[0]; });
  EXPECT_THAT(run.On(Polled{*other}), ElementsAre(HasSubstr("offer-again e1 a1 ")));
  run.DeliverAll(kMeasured);
  EXPECT_FALSE(run.machine->over());
  run.On(EvaluationDone{});
  EXPECT_EQ(run.machine->phase(), RunMachine::Phase::kFinished);
}

TEST(RunMachineEvaluationTest, WhoeverFails_IsReplacedFromTheEvaluationsOwnDraw) {
  MeasuredRun run(1, 1);
  run.Train();
  const Lease first = run.machine->leases(kMeasured)[0];
  const auto lines = run.On(StepReported{first.client_id, first.task, 0, true, "no test data"});
  ASSERT_THAT(lines, ElementsAre(HasSubstr("offer e1 a1 ")));
  EXPECT_THAT(run.DeliverAll(kMeasured), Contains(HasSubstr("evaluated e1 a1 c")));
}

TEST(RunMachineEvaluationTest, TooFewReports_AreSaid) {
  MeasuredRun run(1, 1, 1000);
  run.Train();
  run.Deliver(run.machine->leases(kMeasured)[0]);
  const auto lines = run.On(Tick{}, 2000);
  EXPECT_THAT(lines, ElementsAre("close e1 a1", HasSubstr("evaluated e1 a1: 1 of 2 reports that the evaluation of "
                                                          "round 1 needs arrived (client '")));
  run.On(EvaluationDone{}, 2000);
  EXPECT_EQ(run.machine->phase(), RunMachine::Phase::kFinished);
}

TEST(RunMachineEvaluationTest, EvaluationThatCannotBeginBeforeTheNextIsDue_IsLeftOutWhereThereAreDeadlines) {
  MeasuredRun run(1, 4, 1000);
  run.Train();
  run.Train();
  run.Train();
  EXPECT_TRUE(run.machine->Needs(1));
  EXPECT_FALSE(run.machine->Needs(2));
  EXPECT_TRUE(run.machine->Needs(3));
}

TEST(RunMachineEvaluationTest, EvaluationCutOff_BeginsAgainWithTheSameTasks) {
  MeasuredRun run(1, 1);
  run.Train();
  const auto asked = run.Names(kMeasured);
  RunStart start;
  start.committed_round = 1;
  start.evaluations = {1};
  for (int i = 0; i < 6; ++i) start.candidates.push_back({fmt::format("c{}", i), 1, 1});
  run.Start(start);
  EXPECT_EQ(run.machine->phase(), RunMachine::Phase::kEvaluating);
  EXPECT_THAT(run.On(Tick{}), Contains(fmt::format("offer e1 a1 {}#0", asked[0])));
  EXPECT_EQ(run.Names(kMeasured), asked);
  run.DeliverAll(kMeasured);
  run.On(EvaluationDone{});
  EXPECT_EQ(run.machine->phase(), RunMachine::Phase::kFinished);
}

TEST(RunMachineEvaluationTest, StoppedBetweenItsLastFiguresAndTheirRows_FinishesTheRun) {
  MeasuredRun run(1, 1);
  run.Train();
  run.DeliverAll(kMeasured);
  run.On(Operator{});
  EXPECT_FALSE(run.machine->over());
  run.On(EvaluationDone{});
  EXPECT_EQ(run.machine->phase(), RunMachine::Phase::kFinished);

  MeasuredRun earlier(1, 1);
  earlier.Train();
  earlier.On(Operator{});
  EXPECT_EQ(earlier.machine->phase(), RunMachine::Phase::kStopped) << "its figures are not in";
}

TEST(RunMachineEvaluationTest, SiteOfManyNames_KeepsAPartialOfEachKind) {
  MeasuredRun run(1, 2);
  run.Train();
  SitePolled poll{"s", SitePolled::Serves::kAny, {}, 8};
  for (int i = 0; i < 4; ++i) run.On(poll);
  poll.working_on.clear();
  std::vector<TaskId> trained, measured;
  for (const Lease& lease : run.machine->leases()) trained.push_back(lease.task);
  for (const Lease& lease : run.machine->leases(kMeasured)) measured.push_back(lease.task);
  for (const auto* tasks : {&trained, &measured}) {
    for (const TaskId& task : *tasks) poll.working_on.push_back({task, true});
  }
  std::vector<uint64_t> gathers;
  for (const Action& action : run.machine->On(poll, 0)) {
    if (const auto* asked = std::get_if<HandOverPartial>(&action)) gathers.push_back(asked->gather);
  }
  EXPECT_THAT(gathers, ElementsAre(GatherOf(2, 1), GatherOf(1, 1, kMeasured)));
  EXPECT_THAT(run.On(PartialReported{"s", {trained[0], measured[0]}}), ElementsAre(HasSubstr("of another kind")));
  EXPECT_THAT(run.On(PartialReported{"s", measured}), ElementsAre(HasSubstr("fold e1"), HasSubstr("fold e1")));
  EXPECT_THAT(run.On(Merged{measured}), Contains(HasSubstr("evaluated e1")));
  EXPECT_THAT(run.On(PartialReported{"s", trained}), ElementsAre(HasSubstr("fold r2"), HasSubstr("fold r2")));
  EXPECT_THAT(run.On(Merged{trained}), Contains(HasSubstr("commit r2")));
}

TEST(RunMachineEvaluationTest, RulesThatCannotWork_AreRefused) {
  MeasuredRun run(1);
  run.rules.evaluation.min_reports = 3;
  EXPECT_THAT(RunMachine::Create(run.rules, {}),
              testing::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("counts with 3 reports")));
  run.rules.evaluation = {-1, 1, 0};
  EXPECT_THAT(RunMachine::Create(run.rules, {}),
              testing::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("every -1 versions")));
  run.rules.evaluation = {1, 1, 0};
  RunStart start;
  start.evaluations = {1};
  EXPECT_THAT(RunMachine::Create(run.rules, start),
              testing::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("version 1 cannot be measured")));
  start.evaluations = {-1};
  EXPECT_THAT(RunMachine::Create(run.rules, start),
              testing::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("version -1 cannot be measured")));
  start.evaluations = {0};
  EXPECT_OK(RunMachine::Create(run.rules, start));
}

}  // namespace
}  // namespace rivulet
