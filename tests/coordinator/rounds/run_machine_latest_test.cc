// Versions made while other clients train: leases that outlive versions, and their state after a restart.
#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "coordinator/rounds/run_machine.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

RunRules LatestRules(int64_t in_flight, int64_t updates, int64_t max_staleness) {
  RunRules rules;
  rules.run_id = "run";
  rules.seed = 7;
  rules.rounds = 4;
  rules.policy = {in_flight, updates, RoundPolicy::BasePolicy::kLatest, max_staleness, true};
  rules.min_clients = 1;
  rules.deadline_ms = 1000;
  return rules;
}

struct LatestRun {
  LatestRun(int64_t in_flight, int64_t updates, int64_t max_staleness, int names = 8)
      : rules(LatestRules(in_flight, updates, max_staleness)) {
    rules.min_clients = names;
    auto created = RunMachine::Create(rules, RunStart{});
    EXPECT_OK(created);
    machine = *std::move(created);
    ClientsJoined joined;
    for (int i = 0; i < names; ++i) joined.client_ids.push_back(fmt::format("c{}", i));
    On(joined);
  }
  std::vector<std::string> On(const Event& event, TimeMs now = 0) {
    std::vector<std::string> lines;
    for (const Action& action : machine->On(event, now)) {
      lines.push_back(Describe(action, "run"));
      if (const auto* offer = std::get_if<Offer>(&action); offer != nullptr && !offer->again) {
        out.push_back(offer->lease);
      }
    }
    return lines;
  }
  // Folds the oldest that is out, or the one at `place`.
  std::vector<std::string> Deliver(size_t place = 0) {
    const Lease lease = out.at(place);
    out.erase(out.begin() + static_cast<std::ptrdiff_t>(place));
    On(StepReported{lease.client_id, lease.task});
    EXPECT_THAT(On(StageDone{lease.task}), ElementsAre(HasSubstr("fold ")));
    return On(FoldDone{lease.task});
  }
  RunRules rules;
  std::optional<RunMachine> machine;
  std::vector<Lease> out;  // in the order in which they were offered
};

TEST(RunMachineLatestTest, LeaseThatHasEnded_IsFollowedByOneFromTheNewestVersion) {
  LatestRun run(3, 2, 5);
  EXPECT_EQ(run.out.size(), 3u);
  EXPECT_THAT(run.Deliver(), ElementsAre(HasSubstr("offer r1 a1 ")));
  EXPECT_EQ(run.out.back().base_round, 0);
  EXPECT_THAT(run.Deliver(), ElementsAre("close r1 a1", HasSubstr("commit r1 a1 ")));
  EXPECT_EQ(run.out.size(), 2u) << "who comes next starts from the version that is being made";
  const auto closed = run.machine->leases();
  EXPECT_EQ(closed.size(), 2u);
  for (const Lease& lease : closed) EXPECT_EQ(lease.state, Lease::State::kFolded);
  EXPECT_THAT(run.On(CommitDone{}), ElementsAre(HasSubstr("offer r2 a1 ")));
  EXPECT_EQ(run.out.back().base_round, 1);
  EXPECT_EQ(run.machine->leases().size(), 3u);
  EXPECT_TRUE(run.machine->Needs(0));
  run.Deliver();
  run.Deliver();
  EXPECT_FALSE(run.machine->Needs(0));
}

TEST(RunMachineLatestTest, UpdateThatComesWhileAVersionIsMade_GoesIntoTheNext) {
  LatestRun run(4, 2, 5);
  run.Deliver();
  EXPECT_THAT(run.Deliver(), Contains(HasSubstr("commit r1")));
  EXPECT_THAT(run.Deliver(), IsEmpty());
  EXPECT_THAT(run.Deliver(), IsEmpty()) << "one version is made at a time";
  // There is no room for more.
  const Lease late = run.out.at(0);
  run.On(StepReported{late.client_id, late.task});
  const auto refused = run.machine->On(StageDone{late.task}, 0);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(std::get<Refuse>(refused[0]).why, Refuse::Why::kBusy);
  const auto lines = run.On(CommitDone{});
  EXPECT_THAT(lines, Contains(HasSubstr("commit r2 a1 ")));
  EXPECT_THAT(run.On(StepReported{late.client_id, late.task}), ElementsAre(HasSubstr("stage ")));
  EXPECT_THAT(run.On(StageDone{late.task}), ElementsAre(HasSubstr("fold ")));
}

// A site that holds what it has folded hands it over when nobody else is awaited; that is not the end of the version.
TEST(RunMachineLatestTest, FewerOutThanAVersionTakes_SitesHandOverAndMoreAreAsked) {
  LatestRun run(2, 3, 5);
  // As an aggregator with these clients does: it takes what is offered, and holds it.
  const auto taken = [&] {
    std::vector<SitePolled::Holding> in_hand;
    for (const Lease& lease : run.machine->leases()) {
      if (lease.state == Lease::State::kTaken || lease.state == Lease::State::kHeld)
        in_hand.push_back({lease.task, true});
    }
    return in_hand;
  };
  const auto hand_over = [&] {
    std::vector<std::string> said;
    for (int polls = 0; polls < 8 && said.empty(); ++polls) {
      for (std::string& line : run.On(SitePolled{"s0", SitePolled::Serves::kAny, taken(), 4})) {
        if (line.starts_with("hand-over ")) said.push_back(std::move(line));
      }
    }
    EXPECT_EQ(said.size(), 1u);
    std::vector<TaskId> held;
    for (const SitePolled::Holding& holding : taken()) held.push_back(holding.task);
    run.On(PartialReported{"s0", held});
    return run.On(Merged{held});
  };
  EXPECT_THAT(hand_over(), ElementsAre(HasSubstr("offer r1 a1 "), HasSubstr("offer r1 a1 ")));
  EXPECT_EQ(run.machine->CountInState(Lease::State::kFolded), 2);
  EXPECT_THAT(hand_over(), Contains(HasSubstr("commit r1 a1 ")));
}

TEST(RunMachineLatestTest, LeaseThatCouldGoIntoNoVersionAnyMore_IsDropped) {
  LatestRun run(3, 1, 1);
  const Lease slow = run.out.at(0);
  for (int version = 0; version < 2; ++version) {
    EXPECT_EQ(run.machine->FindLease(slow.task)->state, Lease::State::kOffered);
    EXPECT_THAT(run.Deliver(run.out.size() - 1), Contains(HasSubstr("commit ")));
    if (version == 1) {
      EXPECT_THAT(run.machine->FindLease(slow.task)->reason, HasSubstr("2 versions late, and 1 are allowed"));
    }
    run.On(CommitDone{});
  }
  EXPECT_EQ(run.machine->FindLease(slow.task), nullptr);
}

TEST(RunMachineLatestTest, LastVersion_EndsWhatIsStillOut) {
  LatestRun run(3, 2, 9);
  for (int version = 1; version <= 4; ++version) {
    run.Deliver();
    run.Deliver();
    if (version == 4) {
      const auto leases = run.machine->leases();
      EXPECT_EQ(std::count_if(leases.begin(), leases.end(),
                              [](const Lease& lease) { return lease.state == Lease::State::kDropped; }),
                2);
    }
    run.On(CommitDone{});
  }
  EXPECT_EQ(run.machine->phase(), RunMachine::Phase::kFinished);
}

TEST(RunMachineLatestTest, KilledWithLeasesInTheAir_OffersTheSameTasksFromTheSameVersions) {
  LatestRun run(4, 2, 5);
  run.Deliver();
  run.Deliver();
  run.Deliver();  // towards the next version, and lost with the process
  run.On(CommitDone{}, 500);
  const std::string snapshot = run.machine->Save(500);
  std::map<TaskId, int64_t> before;
  for (const Lease& lease : run.machine->leases()) before[lease.task] = lease.base_round;
  auto resumed = RunMachine::Resume(run.rules, snapshot, {.committed_round = 1}, 7);
  ASSERT_OK(resumed);
  EXPECT_EQ(resumed->committed_round(), 1);
  EXPECT_TRUE(resumed->Needs(0));
  resumed->On(Tick{}, 8);
  std::map<TaskId, int64_t> after;
  for (const Lease& lease : resumed->leases()) {
    EXPECT_EQ(lease.state, Lease::State::kOffered);
    const auto actions = resumed->On(Polled{lease.client_id}, 9);
    ASSERT_EQ(actions.size(), 1u);
    EXPECT_EQ(std::get<Offer>(actions[0]).lease.task, lease.task);
    EXPECT_EQ(std::get<Offer>(actions[0]).gather, GatherOf(lease.base_round + 1, 1));
    after[lease.task] = lease.base_round;
  }
  for (const auto& [task, base] : before) EXPECT_EQ(after.at(task), base);
}

TEST(RunMachineLatestTest, TimesOfASnapshot_AreThoseOfWhoeverReadsIt) {
  LatestRun run(2, 2, 5);
  run.rules.lease_ms = 100;
  run.rules.retry.first_pause_ms = 1000;
  run.rules.max_attempts = 0;
  auto created = RunMachine::Create(run.rules, RunStart{});
  ASSERT_OK(created);
  run.machine = *std::move(created);
  run.out.clear();
  run.On(ClientsJoined{{"c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"}}, 5000);
  auto restored = RunMachine::Restore(run.rules, run.machine->Save(5040), nullptr, 10);
  ASSERT_OK(restored);
  EXPECT_EQ(restored->leases()[0].expires, 70);
  EXPECT_EQ(restored->Save(10), run.machine->Save(5040));
}

TEST(RunMachineLatestTest, ResumedRunOfCommittedBases_GoesOnWithItsAttempt) {
  RunRules rules = LatestRules(3, 3, 0);
  rules.policy.base_policy = RoundPolicy::BasePolicy::kCommitted;
  rules.min_clients = 5;
  auto created = RunMachine::Create(rules, RunStart{});
  ASSERT_OK(created);
  created->On(ClientsJoined{{"a", "b", "c", "d", "e"}}, 100);
  const auto leases = created->leases();
  created->On(StepReported{leases[0].client_id, leases[0].task, 0, true, "no"}, 100);
  const Lease next = created->leases().back();
  created->On(Polled{leases[1].client_id}, 100);
  auto resumed = RunMachine::Resume(rules, created->Save(100), {}, 1);
  ASSERT_OK(resumed);
  int64_t offers = 0;
  for (const Action& action : resumed->On(Tick{}, 2)) offers += std::holds_alternative<Offer>(action);
  EXPECT_EQ(offers, 3);
  EXPECT_EQ(resumed->leases().size(), 4u) << "who has failed stays out, and nobody is asked beside the rest";
  EXPECT_EQ(resumed->LeaseOf(leases[0].client_id)->state, Lease::State::kFailed);
  EXPECT_EQ(resumed->LeaseOf(leases[1].client_id)->state, Lease::State::kOffered);
  EXPECT_EQ(resumed->LeaseOf(next.client_id)->task, next.task);
}

TEST(RunMachineLatestTest, SnapshotOfOtherRows_IsRefused) {
  LatestRun run(2, 2, 0);
  EXPECT_THAT(RunMachine::Resume(run.rules, run.machine->Save(), {.committed_round = 1}, 0),
              testing::StatusIs(absl::StatusCode::kFailedPrecondition,
                                "the snapshot of a run's rounds is of attempt 1 at round 1, and its rows of 1 at 2"));
}

TEST(RunMachineLatestTest, DialThatCannotWork_IsRefused) {
  RunRules rules = LatestRules(2, 2, -1);
  EXPECT_THAT(RunMachine::Create(rules, {}),
              testing::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("max_staleness is -1")));
  rules = LatestRules(2, 2, 1);
  rules.barriers.resize(1);
  EXPECT_THAT(RunMachine::Create(rules, {}),
              testing::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cannot outlive a version")));
}

// Any events, with a plain book of what must hold; saved and restored after each, and sometimes killed: then it is
// resumed from the snapshot of the last version.
TEST(RunMachineLatestTest, AnyEvents_KeepTheBookBalanced) {
  int finished = 0, versions = 0, stale = 0, kills = 0, dropped = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
    RunRules rules = LatestRules(1 + below(5), 1 + below(4), below(4));
    rules.seed = seed;
    rules.rounds = 1 + below(6);
    rules.max_attempts = 0;
    rules.min_reports = below(2);
    rules.lease_ms = 40 * below(3);
    rules.presence_ms = 50 * below(3);
    if (below(3) == 0) rules.evaluation = {1 + below(2), 2, 1};
    auto created = RunMachine::Create(rules, RunStart{});
    ASSERT_OK(created);
    RunMachine machine = *std::move(created);
    TimeMs now = 1;
    std::string durable = machine.Save(now);
    int64_t durable_round = 0, durable_attempt = 1;
    std::set<TaskId> in_versions, in_versions_durable, made, folding;
    std::map<TaskId, Lease> known;
    std::vector<std::string> joined;
    bool measured = false;
    int processes = 1;
    for (int step = 0; step < 500 && !machine.over(); ++step) {
      now += below(10);
      if (below(60) == 0) {  // the process dies; what is durable is the last version
        now = below(50);
        RunStart start;
        start.committed_round = durable_round;
        start.attempt = durable_attempt;
        start.first_ordinal = static_cast<uint16_t>(256 * processes++);
        for (const std::string& name : joined) start.candidates.push_back({name, 1, 1});
        auto resumed = RunMachine::Resume(rules, durable, start, now);
        ASSERT_OK(resumed);
        machine = *std::move(resumed);
        for (const Action& action : machine.On(Tick{}, now)) {
          const auto* offer = std::get_if<Offer>(&action);
          if (offer == nullptr) continue;
          const bool fresh = known.emplace(offer->lease.task, offer->lease).second;
          ASSERT_TRUE(fresh || offer->lease.ordinal < 256 * (processes - 1)) << offer->lease.task << " is another now";
        }
        in_versions = in_versions_durable;
        folding.clear();
        measured = false;
        ++kills;
      }
      const std::string client = fmt::format("c{}", below(8));
      const Lease* lease = machine.LeaseOf(client, below(6) == 0 ? TaskKind::kEvaluate : TaskKind::kTrain);
      const TaskId task = lease != nullptr ? lease->task : "run-r1-a1-nobody-0";
      Event event = Tick{};
      switch (below(10)) {
        case 0:
          joined.push_back(client);
          event = ClientsJoined{{client}};
          break;
        case 1:
          if (below(8) == 0) event = ClientLeft{client};
          break;
        case 2:
          event = Polled{client};
          break;
        case 3:
        case 4:
          event = StepReported{client, task, 0, below(12) == 0, "no"};
          break;
        case 5:
        case 6:
          event = StageDone{task, below(10) != 0, "NaN"};
          break;
        case 7:
          if (folding.empty()) break;
          event = FoldDone{*folding.begin(), below(10) != 0, "diverged"};
          folding.erase(folding.begin());
          break;
        case 8:
          if (machine.phase() == RunMachine::Phase::kCommitting || machine.phase() == RunMachine::Phase::kAbandoning) {
            event = CommitDone{};
          }
          break;
        default:
          if (measured) event = EvaluationDone{};
      }
      const int64_t before = machine.committed_round();
      if (std::holds_alternative<CommitDone>(event)) made = in_versions;
      auto copy = RunMachine::Restore(rules, machine.Save(now), nullptr, now);
      ASSERT_OK(copy);
      const std::vector<Action> actions = machine.On(event, now);
      const std::vector<Action> again = copy->On(event, now);
      ASSERT_EQ(actions.size(), again.size());
      for (size_t i = 0; i < actions.size(); ++i) ASSERT_EQ(Describe(actions[i], "run"), Describe(again[i], "run"));
      ASSERT_EQ(machine.Save(now), copy->Save(now));
      machine = *std::move(copy);
      if (std::holds_alternative<EvaluationDone>(event)) measured = false;
      for (const Action& action : actions) {
        if (const auto* offer = std::get_if<Offer>(&action)) {
          const auto [entry, fresh] = known.emplace(offer->lease.task, offer->lease);
          ASSERT_TRUE(fresh || offer->again) << offer->lease.task << " is offered twice";
          ASSERT_EQ(entry->second.base_round, offer->lease.base_round);
          ASSERT_LE(offer->lease.base_round, machine.committed_round());
          if (offer->lease.base_round < machine.committed_round()) {
            ASSERT_TRUE(machine.Needs(offer->lease.base_round));
          }
        } else if (const auto* fold = std::get_if<Fold>(&action)) {
          ASSERT_TRUE(folding.insert(fold->task).second);
        } else if (const auto* commit = std::get_if<Commit>(&action)) {
          ++versions;
          ASSERT_LE(std::ssize(commit->tasks), rules.policy.updates_per_version);
          for (const TaskId& folded : commit->tasks) {
            ASSERT_TRUE(in_versions.insert(folded).second) << folded << " is in two versions";
            const int64_t staleness = commit->round - 1 - known.at(folded).base_round;
            ASSERT_GE(staleness, 0);
            ASSERT_LE(staleness, rules.policy.max_staleness);
            stale += staleness > 0;
          }
          for (const Lease& closed : machine.leases()) {
            ASSERT_TRUE(closed.resolved());
            dropped += closed.state == Lease::State::kDropped;
          }
        } else if (std::holds_alternative<Evaluated>(action)) {
          measured = true;
        }
      }
      int64_t out = 0;
      for (const auto state : {Lease::State::kOffered, Lease::State::kTaken, Lease::State::kStaging,
                               Lease::State::kFolding, Lease::State::kHeld}) {
        if (machine.phase() == RunMachine::Phase::kTraining) out += machine.CountInState(state);
      }
      if (rules.lease_ms == 0) {
        ASSERT_LE(out, rules.policy.in_flight);
      }
      if (machine.committed_round() > before) {
        durable = machine.Save(now);
        durable_round = machine.committed_round();
        durable_attempt = machine.attempt();
        in_versions_durable = made;
      }
    }
    finished += machine.phase() == RunMachine::Phase::kFinished;
  }
  EXPECT_GT(finished, 20);
  EXPECT_GT(versions, 130);
  EXPECT_GT(stale, 13);
  EXPECT_GT(kills, 100);
  EXPECT_GT(dropped, 10);
}

}  // namespace
}  // namespace rivulet
