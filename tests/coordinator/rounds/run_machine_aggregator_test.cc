// Aggregators and the run machine: an aggregator's clients, repeated offers, and tasks that it has lost.
#include <algorithm>

#include "coordinator/rounds/run_machine.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

// Four clients, "c0" and "c1" through aggregator "t", all in the cohort.
class MachineOfAnAggregatorTest : public ::testing::Test {
 protected:
  MachineOfAnAggregatorTest() {
    RunRules rules;
    rules.run_id = "run";
    rules.rounds = 2;
    rules.policy = {4, 4};
    rules.min_clients = 4;
    rules.lease_ms = 1000;
    machine_ = *RunMachine::Create(rules, RunStart{});
    machine_->On(ClientsJoined{{"c0", "c1"}, "t"}, 0);
    machine_->On(ClientsJoined{{"c2", "c3"}, ""}, 0);
  }
  std::vector<Action> Poll(std::vector<std::string> names, std::vector<SitePolled::Holding> working_on = {},
                           TimeMs now = 0, const std::string& aggregator = "t") {
    return machine_->On(SitePolled{aggregator, SitePolled::Serves::kNames, std::move(working_on), 9, std::move(names)},
                        now);
  }
  static std::vector<std::string> Given(const std::vector<Action>& actions) {
    std::vector<std::string> clients;
    for (const Action& action : actions) {
      if (const auto* offer = std::get_if<Offer>(&action); offer != nullptr && offer->again) {
        clients.push_back(offer->lease.client_id);
      }
    }
    return clients;
  }
  static std::vector<std::string> Said(const std::vector<Action>& actions) {
    std::vector<std::string> lines;
    for (const Action& action : actions) lines.push_back(Describe(action, "run"));
    return lines;
  }
  const Lease& Of(const std::string& client_id) const { return *machine_->LeaseOf(client_id); }
  TaskId TaskOf(const std::string& client_id) const { return Of(client_id).task; }

  std::optional<RunMachine> machine_;
};

TEST_F(MachineOfAnAggregatorTest, IsGivenTheTasksOfItsOwnClientsAndOfNoOther) {
  EXPECT_THAT(Given(Poll({"c0", "c1"})), UnorderedElementsAre("c0", "c1"));
  EXPECT_EQ(Of("c0").site, "t");
  EXPECT_EQ(Of("c2").state, Lease::State::kOffered);
  EXPECT_THAT(Given(Poll({"c2"}, {}, 0, "another")), IsEmpty());
}

TEST_F(MachineOfAnAggregatorTest, WhatItDoesNotNameItHasAgainWhenItsClientCalls) {
  Poll({"c0", "c1"});
  EXPECT_THAT(Given(Poll({})), IsEmpty()) << "nobody has called";
  EXPECT_THAT(Given(Poll({"c0", "c1"}, {{TaskOf("c1")}})), ElementsAre("c0"));
}

// An aggregator says again and again who has called it.
TEST_F(MachineOfAnAggregatorTest, NameThatJoinsAgainTheSameWay_KeepsItsTask) {
  Poll({"c0", "c1"});
  machine_->On(ClientsJoined{{"c0", "c2"}, "t"}, 0);
  EXPECT_EQ(Of("c0").state, Lease::State::kTaken);
  EXPECT_EQ(Of("c0").site, "t");
  EXPECT_EQ(machine_->via("c2"), "t");
}

TEST_F(MachineOfAnAggregatorTest, WhatItNamesNoMoreLapsesAndComesBackWithItsClient) {
  Poll({"c0", "c1"});
  Poll({"c0"}, {{TaskOf("c0")}}, 900);
  machine_->On(Tick{}, 1100);
  EXPECT_EQ(Of("c0").state, Lease::State::kTaken);
  EXPECT_EQ(Of("c1").state, Lease::State::kLapsed);
  EXPECT_THAT(Given(Poll({"c1"}, {{TaskOf("c0")}}, 1200)), ElementsAre("c1"));
}

TEST_F(MachineOfAnAggregatorTest, HeldAndNoLongerHeld_IsAwaitedAgain) {
  Poll({"c0", "c1"});
  for (const char* client : {"c2", "c3"}) {
    machine_->On(Polled{client}, 0);
    machine_->On(StepReported{client, TaskOf(client)}, 0);
    machine_->On(StageDone{TaskOf(client)}, 0);
    machine_->On(FoldDone{TaskOf(client)}, 0);
  }
  const TaskId a = TaskOf("c0"), b = TaskOf("c1");
  EXPECT_THAT(Said(Poll({}, {{a, true}, {b, true}})), Contains(AllOf(HasSubstr("hand-over t"), HasSubstr("c0"))));
  Poll({}, {{a, true}, {b, false}});
  EXPECT_EQ(Of("c0").state, Lease::State::kHeld);
  EXPECT_EQ(Of("c1").state, Lease::State::kTaken);
  EXPECT_THAT(Said(Poll({}, {{a, true}, {b, true}})), Contains(HasSubstr("hand-over t")));
}

TEST_F(MachineOfAnAggregatorTest, ClientThatCallsItself_TakesItsTaskFromTheAggregator) {
  Poll({"c0", "c1"});
  Poll({}, {{TaskOf("c0"), true}});
  machine_->On(ClientsJoined{{"c0"}, ""}, 0);
  EXPECT_EQ(Of("c0").state, Lease::State::kOffered);
  EXPECT_THAT(Given(machine_->On(Polled{"c0"}, 0)), ElementsAre("c0"));
  EXPECT_THAT(Said(Poll({}, {{TaskOf("c0"), true}, {TaskOf("c1")}})), Contains(HasSubstr("cancel")));
}

TEST_F(MachineOfAnAggregatorTest, Lost_ItsClientsAreOfferedTheSameTasksAgain) {
  Poll({"c0", "c1"});
  const TaskId task = TaskOf("c0");
  Poll({}, {{task, true}});
  machine_->On(SiteLost{"t"}, 0);
  EXPECT_THAT(Given(Poll({})), SizeIs(2));
  EXPECT_EQ(TaskOf("c0"), task);
}

TEST_F(MachineOfAnAggregatorTest, Snapshot_KeepsWhoIsReachedThroughIt) {
  Poll({"c0", "c1"});
  auto again = RunMachine::Restore(
      [] {
        RunRules rules;
        rules.run_id = "run";
        rules.rounds = 2;
        rules.policy = {4, 4};
        rules.min_clients = 4;
        rules.lease_ms = 1000;
        return rules;
      }(),
      machine_->Save(0), nullptr, 0);
  ASSERT_OK(again);
  EXPECT_EQ(again->via("c0"), "t");
  EXPECT_EQ(again->via("c2"), "");
}

// Of a population that is there from the start no snapshot says on which way its members were reached: a lease goes to
// whoever of the two calls first.
TEST(MachineOfAnAggregator, Resumed_ALeaseIsReachedOnTheWayThatIsToldNow) {
  RunRules rules;
  rules.run_id = "run";
  rules.rounds = 2;
  rules.policy = {2, 2};
  RunStart start;
  start.population = NumberedPopulation(2);
  auto before = RunMachine::Create(rules, std::move(start));
  ASSERT_OK(before);
  const std::string c0 = "client-00000", c1 = "client-00001";
  before->On(ClientsJoined{{c0, c1}, "t"}, 0);
  ASSERT_EQ(before->LeaseOf(c0)->via, "t");
  RunStart again;
  again.population = NumberedPopulation(2);
  auto machine = RunMachine::Resume(rules, before->Save(0), std::move(again), 0);
  ASSERT_OK(machine);
  machine->On(ClientsJoined{{c1}, "t"}, 0);
  machine->On(Polled{c0}, 0);
  EXPECT_EQ(machine->LeaseOf(c0)->via, "") << "it calls itself now";
  EXPECT_EQ(machine->LeaseOf(c0)->site, c0);
  EXPECT_EQ(machine->LeaseOf(c1)->via, "t");
}

// What a site has had all the time is not taken from it because the coordinator was started again, whichever of its
// words comes first.
TEST(MachineOfAnAggregator, Resumed_WhoeverSaysThatItHasATaskHasIt) {
  RunRules rules;
  rules.run_id = "run";
  rules.rounds = 2;
  rules.policy = {3, 3};
  rules.min_clients = 3;
  rules.lease_ms = 1000;
  auto before = *RunMachine::Create(rules, RunStart{});
  before.On(ClientsJoined{{"c0", "c1"}, "t"}, 0);
  before.On(ClientsJoined{{"c2"}, ""}, 0);
  const TaskId held = before.LeaseOf("c0")->task, other = before.LeaseOf("c1")->task;
  const TaskId own = before.LeaseOf("c2")->task;
  auto machine = RunMachine::Resume(rules, before.Save(0), RunStart{}, 0);
  ASSERT_OK(machine);
  const auto cancels = [](const std::vector<Action>& actions) {
    return std::ranges::any_of(actions, [](const Action& a) { return std::holds_alternative<Cancel>(a); });
  };
  SitePolled beat{"t", SitePolled::Serves::kNames, {{held, true}}, 0};
  EXPECT_FALSE(cancels(machine->On(beat, 0)));
  EXPECT_EQ(machine->LeaseOf("c0")->state, Lease::State::kHeld);
  EXPECT_EQ(machine->LeaseOf("c1")->state, Lease::State::kOffered) << "of " << other << " nobody has said so";
  EXPECT_FALSE(cancels(machine->On(SitePolled{"c2", SitePolled::Serves::kItself, {{own}}, 0}, 0)));
  EXPECT_EQ(machine->LeaseOf("c2")->state, Lease::State::kTaken);
  EXPECT_TRUE(cancels(machine->On(SitePolled{"another", SitePolled::Serves::kNames, {{other}}, 0}, 0)));
}

// A partial that the process before had accepted is merged before any site has called.
TEST(MachineOfAnAggregator, KeptPartial_IsTakenOfTasksThatAreOffered) {
  RunRules rules;
  rules.run_id = "run";
  rules.rounds = 2;
  rules.policy = {2, 2};
  rules.min_clients = 2;
  auto before = *RunMachine::Create(rules, RunStart{});
  before.On(ClientsJoined{{"c0", "c1"}, "t"}, 0);
  const std::vector<TaskId> tasks = {before.LeaseOf("c0")->task, before.LeaseOf("c1")->task};
  auto machine = RunMachine::Resume(rules, before.Save(0), RunStart{}, 0);
  ASSERT_OK(machine);
  machine->On(Tick{}, 0);
  const auto folds = [&](const PartialReported& event) {
    return std::ranges::count_if(machine->On(event, 0),
                                 [](const Action& a) { return std::holds_alternative<Fold>(a); });
  };
  EXPECT_EQ(folds({"t", tasks}), 0) << "a site that was given none brings none";
  EXPECT_EQ(folds({"t", tasks, true}), 2);
  EXPECT_THAT(machine->On(Merged{tasks}, 0), Contains(::testing::VariantWith<Commit>(::testing::_)));
  EXPECT_EQ(machine->leases()[0].site, "t");
}

}  // namespace
}  // namespace rivulet
