// Sites of many clients and the run machine: their tasks, their partial sums, and the requests for these.
#include <random>

#include "coordinator/rounds/run_machine.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Holding = SitePolled::Holding;

// A machine of `names` clients "c0", "c1", … with one cohort drawn.
struct SiteRun {
  explicit SiteRun(RunRules given, int names) : rules(std::move(given)) {
    rules.run_id = "run";
    auto created = RunMachine::Create(rules, RunStart{});
    EXPECT_OK(created);
    machine = *std::move(created);
    ClientsJoined joined;
    for (int i = 0; i < names; ++i) joined.client_ids.push_back(fmt::format("c{}", i));
    machine->On(joined, 0);
  }
  std::vector<std::string> On(const Event& event, TimeMs now = 0) {
    std::vector<std::string> lines;
    for (const Action& action : machine->On(event, now)) lines.push_back(Describe(action, "run"));
    return lines;
  }
  // The tasks that a poll gives.
  std::vector<TaskId> Take(const std::string& site, int64_t want, std::vector<Holding> working_on = {}) {
    std::vector<TaskId> tasks;
    for (const Action& action : machine->On(SitePolled{site, SitePolled::Serves::kAny, working_on, want}, 0)) {
      if (const auto* offer = std::get_if<Offer>(&action)) tasks.push_back(offer->lease.task);
    }
    return tasks;
  }
  std::vector<std::string> Hold(const std::string& site, const std::vector<TaskId>& tasks) {
    SitePolled poll{site, SitePolled::Serves::kAny, {}, 0};
    for (const TaskId& task : tasks) poll.working_on.push_back({task, true});
    return On(poll);
  }
  Lease::State StateOf(const TaskId& task) const {
    for (const Lease& lease : machine->leases()) {
      if (lease.task == task) return lease.state;
    }
    ADD_FAILURE() << task;
    return Lease::State::kFailed;
  }

  RunRules rules;
  std::optional<RunMachine> machine;
};

RunRules Cohort(int64_t cohort) {
  RunRules rules;
  rules.rounds = 2;
  rules.policy = {cohort, cohort};
  rules.min_clients = cohort;
  rules.max_attempts = 2;
  return rules;
}

TEST(RunMachineSiteTest, TwoSitesOfManyNames_HoldHandOverAndCommit) {
  SiteRun run(Cohort(3), 3);
  const std::vector<TaskId> a = run.Take("s0", 2), b = run.Take("s1", 1);
  ASSERT_EQ(a.size(), 1u) << "half an even share of three";
  ASSERT_EQ(b.size(), 1u);
  const std::vector<TaskId> more = run.Take("s0", 2, {{a[0], true}});
  ASSERT_EQ(more.size(), 1u);
  EXPECT_THAT(run.Hold("s0", more), ElementsAre("wait s0")) << "s1 still trains";
  const auto asked = run.machine->On(SitePolled{"s1", SitePolled::Serves::kAny, {{b[0], true}}, 4}, 0);
  ASSERT_EQ(asked.size(), 2u) << "both are asked, and whose poll it is has something to do";
  EXPECT_EQ(std::get<HandOverPartial>(asked[0]).site, "s0");
  EXPECT_THAT(std::get<HandOverPartial>(asked[0]).tasks, ::testing::UnorderedElementsAre(a[0], more[0]));
  EXPECT_EQ(std::get<HandOverPartial>(asked[0]).gather, GatherOf(1, 1));
  EXPECT_EQ(std::get<HandOverPartial>(asked[1]).site, "s1");
  EXPECT_THAT(run.On(SitePolled{"s0", SitePolled::Serves::kAny, {}, 4}), ElementsAre(HasSubstr("hand-over s0 ")))
      << "said again to who polls, and to nobody else";

  EXPECT_EQ(run.On(PartialReported{"s0", {a[0], more[0]}}).size(), 2u);
  EXPECT_THAT(run.On(SitePolled{"s0", SitePolled::Serves::kAny, {}, 4}), ElementsAre("wait s0"));
  EXPECT_THAT(run.On(Merged{{a[0], more[0]}}), IsEmpty());
  EXPECT_THAT(run.On(PartialReported{"s1", b}), ElementsAre(HasSubstr("fold ")));
  EXPECT_THAT(run.On(Merged{b}), ElementsAre("close r1 a1", "commit r1 a1 c0#0 c1#0 c2#0"));
  EXPECT_THAT(run.On(CommitDone{}), Contains(HasSubstr("offer r2 a1 ")));
}

TEST(RunMachineSiteTest, Share_IsHalfAnEvenOneOfWhatIsLeft) {
  SiteRun run(Cohort(10), 10);
  run.Take("s1", 0);  // both are known
  std::vector<size_t> shares;
  for (int turn = 0; turn < 10; ++turn) {
    const std::string site = turn % 2 == 0 ? "s0" : "s1";
    shares.push_back(run.Take(site, 8).size());
  }
  // Nothing is named as in hand: what a site had before is given again and counts.
  EXPECT_THAT(shares, ElementsAre(2, 2, 3, 3, 4, 4, 5, 5, 5, 5));
  EXPECT_EQ(run.machine->CountInState(Lease::State::kTaken), 10);
}

TEST(RunMachineSiteTest, TasksAreGivenInTheOrderDrawn) {
  SiteRun run(Cohort(4), 9);
  std::vector<TaskId> given, drawn;
  for (const Lease& lease : run.machine->leases()) drawn.push_back(lease.task);
  for (int i = 0; i < 4; ++i) {
    std::vector<Holding> in_hand;
    for (const TaskId& task : given) in_hand.push_back({task});
    for (TaskId& task : run.Take("s0", 1, in_hand)) given.push_back(std::move(task));
  }
  EXPECT_EQ(given, drawn);
}

TEST(RunMachineSiteTest, SiteThatWasRestarted_GetsWhatItHadAgain) {
  SiteRun run(Cohort(4), 4);
  const std::vector<TaskId> had = run.Take("s0", 2);
  ASSERT_EQ(had.size(), 2u);
  EXPECT_EQ(run.Take("s0", 2), had);
  EXPECT_EQ(run.Take("s0", 1, {{had[0]}}), std::vector<TaskId>{had[1]}) << "only what it does not name";
  run.Hold("s0", {had[0], had[1]});
  EXPECT_THAT(run.Take("s0", 8), ::testing::SizeIs(1)) << "what it holds is not offered again";
}

TEST(RunMachineSiteTest, WhatIsNoLongerTheSites_IsCancelled) {
  SiteRun run(Cohort(3), 3);
  const TaskId mine = run.Take("s0", 1)[0], another = run.Take("s1", 1)[0];
  EXPECT_THAT(run.On(SitePolled{"s0", SitePolled::Serves::kAny, {{mine}, {another, true}, {"run-r9-a1-c0-0"}}, 0}),
              ElementsAre(HasSubstr("cancel "), "cancel r9 a1 c0#0", "wait s0"));
  run.On(StepReported{"s0", mine, 0, true, "no data"});
  EXPECT_THAT(run.On(SitePolled{"s0", SitePolled::Serves::kAny, {{mine, true}}, 0}), Contains(HasSubstr("cancel ")));
  EXPECT_EQ(run.StateOf(mine), Lease::State::kFailed);
  EXPECT_EQ(run.StateOf(another), Lease::State::kTaken);
}

TEST(RunMachineSiteTest, ClientWhoseTaskASiteHas_Waits) {
  SiteRun run(Cohort(1), 1);
  const TaskId task = run.Take("s0", 1)[0];
  EXPECT_THAT(run.On(Polled{"c0"}), ElementsAre("wait c0"));
  EXPECT_THAT(run.On(StepReported{"c0", task}), ElementsAre(HasSubstr("client 'c0' has no task")));
  run.On(ClientLeft{"c0"});
  EXPECT_EQ(run.StateOf(task), Lease::State::kTaken) << "it may be in the site's partial by now";
  EXPECT_THAT(run.On(StepReported{"s0", task}), ElementsAre(HasSubstr("stage"))) << "a site may also send an update";
  EXPECT_THAT(run.On(StageDone{task}), ElementsAre(HasSubstr("fold")));
  EXPECT_THAT(run.On(FoldDone{task}), Contains("commit r1 a1 c0#0"));
}

TEST(RunMachineSiteTest, SiteThatDiesHolding_IsDroppedAtTheDeadline) {
  RunRules rules = Cohort(2);
  rules.deadline_ms = 1000;
  rules.min_reports = 1;
  SiteRun run(rules, 2);
  const std::vector<TaskId> a = run.Take("s0", 1), b = run.Take("s1", 1);
  run.Hold("s0", a);
  EXPECT_EQ(run.Hold("s1", b).size(), 2u);
  run.On(PartialReported{"s1", b});
  run.On(Merged{b});
  EXPECT_THAT(run.On(Tick{}, 1000), ElementsAre("close r1 a1", HasSubstr("commit r1 a1 ")));
  EXPECT_EQ(run.StateOf(a[0]), Lease::State::kDropped);
  EXPECT_THAT(run.On(PartialReported{"s0", a}), ElementsAre(HasSubstr("no update arrived before the deadline of 1 s")));
}

TEST(RunMachineSiteTest, TaskThatFailsWhileOthersAreHeld_LetsTheRestBeAskedFor) {
  RunRules rules = Cohort(3);
  rules.min_reports = 2;
  SiteRun run(rules, 3);
  const TaskId a = run.Take("s0", 1)[0], b = run.Take("s1", 1)[0], c = run.Take("s1", 1, {{b}})[0];
  run.Hold("s0", {a});
  run.Hold("s1", {b});
  EXPECT_THAT(run.On(StepReported{"s1", c, 0, true, "label 12 at record 3"}),
              ElementsAre(HasSubstr("hand-over s0"), HasSubstr("hand-over s1")));
  // A site that has lost its partial says so of each.
  EXPECT_THAT(run.On(StepReported{"s0", a, 0, true, "its process was restarted"}), IsEmpty());
  run.On(PartialReported{"s1", {b}});
  EXPECT_THAT(run.On(Merged{{b}}), ElementsAre("close r1 a1", HasSubstr("abandon r1 a1: 1 of 2 updates")));
}

TEST(RunMachineSiteTest, PartialReported_WhenItCannotBeMerged_SaysWhyAndChangesNothing) {
  using State = Lease::State;
  using Why = Refuse::Why;
  struct Case {
    const char* name;
    Why why;
    std::function<std::vector<TaskId>(SiteRun& run, const std::vector<TaskId>& mine, const TaskId& another)> tasks;
    const char* reason;
  };
  const Case cases[] = {
      {"none", Why::kUnknown, [](SiteRun&, auto&, auto&) { return std::vector<TaskId>{}; }, "of no task"},
      {"unknown", Why::kUnknown,
       [](SiteRun&, auto& mine, auto&) {
         return std::vector<TaskId>{mine[0], "x"};
       },
       "site 's0' has no task 'x'"},
      {"another's", Why::kUnknown,
       [](SiteRun&, auto& mine, auto& another) {
         return std::vector<TaskId>{mine[0], another};
       },
       "has no task"},
      {"twice", Why::kUnknown,
       [](SiteRun&, auto& mine, auto&) {
         return std::vector<TaskId>{mine[0], mine[1], mine[0]};
       },
       "twice"},
      {"failed", Why::kLate,
       [](SiteRun& run, auto& mine, auto&) {
         run.On(StepReported{"s0", mine[1], 0, true, "no data"});
         return mine;
       },
       "no data"},
      {"on its way alone", Why::kBusy,
       [](SiteRun& run, auto& mine, auto&) {
         run.On(StepReported{"s0", mine[1]});
         return mine;
       },
       "ask again"},
      {"folded", Why::kDuplicate,
       [](SiteRun& run, auto& mine, auto&) {
         run.On(PartialReported{"s0", {mine[1]}});
         run.On(Merged{{mine[1]}});
         return mine;
       },
       "folded already"},
  };
  for (const Case& c : cases) {
    SiteRun run(Cohort(5), 5);
    const std::vector<TaskId> mine = run.Take("s0", 2);
    ASSERT_EQ(mine.size(), 2u);
    const TaskId another = run.Take("s1", 1)[0];
    const std::vector<TaskId> tasks = c.tasks(run, mine, another);
    const auto actions = run.machine->On(PartialReported{"s0", tasks}, 0);
    ASSERT_EQ(actions.size(), 1u) << c.name;
    EXPECT_EQ(std::get<Refuse>(actions[0]).why, c.why) << c.name;
    EXPECT_THAT(std::get<Refuse>(actions[0]).reason, HasSubstr(c.reason)) << c.name;
    EXPECT_EQ(run.StateOf(mine[0]), State::kTaken) << c.name;
  }
}

TEST(RunMachineSiteTest, PartialThatIsRefusedWhileItIsMerged_RefusesEveryTaskInIt) {
  SiteRun run(Cohort(2), 2);
  const std::vector<TaskId> tasks = {run.Take("s0", 1)[0], run.Take("s1", 1)[0]};
  run.Hold("s0", {tasks[0]});
  run.Hold("s1", {tasks[1]});
  run.On(PartialReported{"s0", {tasks[0]}});
  run.On(Merged{{tasks[0]}, false, "it is of another plan"});
  EXPECT_EQ(run.StateOf(tasks[0]), Lease::State::kRefused);
  run.On(PartialReported{"s1", {tasks[1]}});
  EXPECT_THAT(run.On(Merged{{tasks[1]}}), Contains(HasSubstr("refused: it is of another plan")));
}

TEST(RunMachineSiteTest, SiteIsLost_WhatItHadIsOfferedToOthersAndNothingElseMoves) {
  SiteRun run(Cohort(5), 5);
  const std::vector<TaskId> mine = run.Take("s0", 2), others = run.Take("s1", 1);
  const TaskId sent = run.Take("s0", 1, {{mine[0]}, {mine[1]}})[0];
  run.On(StepReported{"s0", sent});
  run.Hold("s0", {mine[0]});
  EXPECT_THAT(run.On(SiteLost{"s0"}), IsEmpty());
  EXPECT_EQ(run.StateOf(mine[0]), Lease::State::kOffered) << "held";
  EXPECT_EQ(run.StateOf(mine[1]), Lease::State::kOffered) << "taken";
  EXPECT_EQ(run.StateOf(sent), Lease::State::kStaging) << "it is in no partial";
  EXPECT_EQ(run.StateOf(others[0]), Lease::State::kTaken);
  EXPECT_THAT(run.On(SiteLost{"nobody"}), IsEmpty());
  EXPECT_THAT(run.Take("s1", 2, {{others[0]}}), Contains(mine[0]));
}

// Whoever is reached through sites alone does not answer before one comes; then the first of the draw are asked first.
TEST(RunMachineSiteTest, SiteThatComesWhenEverybodyHasLapsed_IsGivenTheCohort) {
  RunRules rules = Cohort(2);
  rules.policy.replace = true;
  rules.lease_ms = 100;
  rules.presence_ms = 1000;
  SiteRun run(rules, 4);
  std::vector<TaskId> cohort;
  for (const Lease& lease : run.machine->leases()) cohort.push_back(lease.task);
  ASSERT_EQ(cohort.size(), 2u);
  run.On(Tick{}, 100);
  run.On(Tick{}, 200);
  EXPECT_EQ(run.machine->CountInState(Lease::State::kLapsed), 4);
  std::vector<TaskId> given;
  for (const Action& action : run.machine->On(SitePolled{"s0", SitePolled::Serves::kAny, {}, 8}, 5000)) {
    if (const auto* offer = std::get_if<Offer>(&action)) given.push_back(offer->lease.task);
  }
  EXPECT_EQ(given, cohort);
}

// It was the last that was waited for, and had been asked.
TEST(RunMachineSiteTest, SiteIsLostAsItIsAsked_TheOthersGoOnHolding) {
  SiteRun run(Cohort(2), 2);
  const TaskId a = run.Take("s0", 1)[0], b = run.Take("s1", 1)[0];
  run.Hold("s0", {a});
  EXPECT_THAT(run.Hold("s1", {b}), ElementsAre(HasSubstr("hand-over s0"), HasSubstr("hand-over s1")));
  EXPECT_THAT(run.On(SiteLost{"s0"}), IsEmpty());
  EXPECT_THAT(run.Take("s1", 1), ElementsAre(a));
  EXPECT_THAT(run.Hold("s1", {a}), ElementsAre(HasSubstr("hand-over s1")));
}

TEST(RunMachineSiteTest, OverSelection_ASiteIsGivenNoMoreThanTheVersionHasRoomFor) {
  RunRules rules = Cohort(6);
  rules.policy = {6, 2};
  SiteRun run(rules, 6);
  const std::vector<TaskId> a = run.Take("s0", 8);
  ASSERT_EQ(a.size(), 2u) << "more could not be left out of its partial";
  EXPECT_THAT(run.Take("s1", 8), IsEmpty());
  // What a client brings meanwhile finds no room: the site's two come together.
  const std::string client = run.machine->leases()[5].client_id;
  const TaskId late = run.machine->leases()[5].task;
  run.On(StepReported{client, late});
  EXPECT_THAT(run.On(StageDone{late}), ElementsAre(HasSubstr("had enough updates without it")));
  // One that fails makes room again.
  run.On(StepReported{"s0", a[0], 0, true, "no data"});
  const std::vector<TaskId> b = run.Take("s1", 8);
  ASSERT_EQ(b.size(), 1u);
  run.Hold("s0", {a[1]});
  EXPECT_THAT(run.Hold("s1", b), ElementsAre(HasSubstr("hand-over s0"), HasSubstr("hand-over s1")));
  EXPECT_EQ(run.machine->CountInState(Lease::State::kOffered), 0) << "those who have not asked are not needed";
  run.On(PartialReported{"s1", b});
  run.On(Merged{b});
  run.On(PartialReported{"s0", {a[1]}});
  EXPECT_THAT(run.On(Merged{{a[1]}}), Contains(HasSubstr("commit r1 a1 ")));
}

TEST(RunMachineSiteTest, ClientsOwnPartialBeyondWhatIsWanted_IsDropped) {
  RunRules rules = Cohort(2);
  rules.policy = {2, 1};
  SiteRun run(rules, 2);
  const TaskId first = run.machine->leases()[0].task, second = run.machine->leases()[1].task;
  const std::string a = run.machine->leases()[0].client_id, b = run.machine->leases()[1].client_id;
  run.On(Polled{a});
  run.On(Polled{b});
  run.On(PartialReported{a, {first}});
  EXPECT_THAT(run.On(PartialReported{b, {second}}), ElementsAre(HasSubstr("had enough updates without it")));
  EXPECT_THAT(run.On(Merged{{first}}), Contains(HasSubstr("commit r1 a1 ")));
}

// Two sites, each with its own idea of when to poll, train and hand over, and merges that take their time: whoever does
// what when, the versions are of the same tasks.
TEST(RunMachineSiteTest, AnyInterleaving_GivesTheSameCommits) {
  struct Site {
    std::vector<TaskId> queue, partial, merging;
    size_t said = 0;  // of `partial`
    bool asked = false;
  };
  std::set<std::string> outcomes;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
    SiteRun run(Cohort(5), 8);
    std::map<std::string, Site> sites = {{"s0", {}}, {"s1", {}}};
    std::string outcome;
    const auto feed = [&](const Event& event) {
      for (const Action& action : run.machine->On(event, 0)) {
        if (const auto* offer = std::get_if<Offer>(&action); offer != nullptr && offer->again) {
          sites.at(offer->lease.site).queue.push_back(offer->lease.task);
        } else if (const auto* hand_over = std::get_if<HandOverPartial>(&action)) {
          Site& site = sites.at(hand_over->site);
          EXPECT_EQ(hand_over->tasks.size(), site.partial.size());
          site.asked = true;
        } else if (std::holds_alternative<Commit>(action)) {
          outcome += Describe(action, "run") + "\n";
        } else {
          EXPECT_FALSE(std::holds_alternative<Cancel>(action) || std::holds_alternative<Refuse>(action) ||
                       std::holds_alternative<Abandon>(action))
              << Describe(action, "run");
        }
      }
    };
    for (int step = 0; step < 2000 && !run.machine->over(); ++step) {
      const std::string name = below(2) == 0 ? "s0" : "s1";
      Site& site = sites.at(name);
      switch (below(4)) {
        case 0: {
          SitePolled poll{name, SitePolled::Serves::kAny, {}, static_cast<int64_t>(below(5))};
          for (const TaskId& task : site.queue) poll.working_on.push_back({task});
          for (; site.said < site.partial.size(); ++site.said) {
            poll.working_on.push_back({site.partial[site.said], true});
          }
          if (site.merging.empty()) feed(poll);
          break;
        }
        case 1:
          if (site.queue.empty()) break;
          site.partial.push_back(site.queue.front());
          site.queue.erase(site.queue.begin());
          break;
        case 2:
          if (site.asked && site.merging.empty()) {
            site.merging = std::exchange(site.partial, {});
            site.asked = false;
            site.said = 0;
            feed(PartialReported{name, site.merging});
          } else if (!site.merging.empty()) {
            feed(Merged{std::exchange(site.merging, {})});
          }
          break;
        default:
          feed(CommitDone{});
      }
    }
    ASSERT_EQ(run.machine->phase(), RunMachine::Phase::kFinished) << "seed " << seed;
    outcomes.insert(outcome);
  }
  EXPECT_THAT(outcomes, ::testing::SizeIs(1));
}

}  // namespace
}  // namespace rivulet
