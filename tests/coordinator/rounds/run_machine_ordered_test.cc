// Arrivals by a virtual clock: the clients in a version depend only on draws, task durations and failures, not on the
// worker or the order.
#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "coordinator/rounds/run_machine.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kOrderedNames = 20;

RunRules OrderedRules(uint64_t seed, int64_t in_flight, int64_t updates, int64_t max_staleness) {
  RunRules rules;
  rules.run_id = "run";
  rules.seed = seed;
  rules.rounds = 6;
  rules.policy = {in_flight, updates, RoundPolicy::BasePolicy::kLatest, max_staleness, true};
  rules.min_reports = 1;
  rules.task_time = [seed](const std::string& client_id) -> int64_t {
    return 1 + (client_id.back() - '0') * 7 % 5 + static_cast<int64_t>(seed) % 3;
  };
  return rules;
}

// Rounds that ask more than they wait for.
RunRules OverSelecting(uint64_t seed, int64_t asked, int64_t updates) {
  RunRules rules = OrderedRules(seed, asked, updates, 0);
  rules.policy.base_policy = RoundPolicy::BasePolicy::kCommitted;
  return rules;
}

// What a run came to: of each version "task from its base", and of each offer who and when.
struct Course {
  std::vector<std::vector<std::string>> versions;
  std::set<std::string> offers;
  RunMachine::Phase phase = RunMachine::Phase::kWaiting;
  bool operator==(const Course&) const = default;
};

// Sites that come and go as `order` says; clients whose task's name has a certain sum fail, or are refused.
class Sites {
 public:
  Sites(RunRules rules, uint32_t order, int sites, bool kill)
      : rules_(std::move(rules)), random_(order), sites_(sites), kill_(kill) {
    auto created = RunMachine::Create(rules_, {.population = NumberedPopulation(kOrderedNames)});
    EXPECT_OK(created);
    machine_ = *std::move(created);
  }

  Course Run() {
    On(Tick{});
    for (int step = 0; step < 4000 && !machine_->over(); ++step) {
      if (kill_ && Below(40) == 0) Kill();
      if (committing_ && Below(3) == 0) {
        committing_ = false;
        On(CommitDone{});
        durable_ = machine_->Save();
        durable_versions_ = course_.versions;
        continue;
      }
      const std::string site = fmt::format("site {}", Below(sites_));
      Poll(site);
      if (failed_) break;
    }
    course_.phase = machine_->phase();
    return course_;
  }
  int64_t stale = 0, failures = 0, kills = 0;

 private:
  int Below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

  // Everything since the last version is lost.
  void Kill() {
    if (durable_.empty()) return;
    ++kills;
    const auto round = static_cast<int64_t>(durable_versions_.size());
    auto resumed = RunMachine::Resume(
        rules_, durable_, {.population = NumberedPopulation(kOrderedNames), .committed_round = round, .attempt = 1}, 0);
    ASSERT_OK(resumed);
    machine_ = *std::move(resumed);
    course_.versions = durable_versions_;
    in_hand_.clear();
    held_.clear();
    committing_ = false;
    On(Tick{});
  }

  void Poll(const std::string& site) {
    SitePolled poll{site, SitePolled::Serves::kAny, {}, 1 + Below(3)};
    auto& mine = in_hand_[site];
    for (const Lease& lease : mine) poll.working_on.push_back({lease.task, false});
    if (!mine.empty() && Below(2) == 0) {
      const auto place = static_cast<size_t>(Below(static_cast<int>(mine.size())));
      const Lease lease = mine[place];
      mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(place));
      std::erase_if(poll.working_on, [&](const auto& holding) { return holding.task == lease.task; });
      uint32_t sum = 0;
      for (const char c : lease.task) sum = sum * 31 + static_cast<uint32_t>(c);
      if (sum % 11 == 0) {
        ++failures;
        On(StepReported{site, lease.task, 0, true, "no"});
      } else {
        held_[site][lease.base_round].push_back(lease.task);
        poll.working_on.push_back({lease.task, true});
      }
    }
    for (const Action& action : On(poll)) {
      if (const auto* offer = std::get_if<Offer>(&action); offer != nullptr && offer->again) {
        EXPECT_TRUE(offer->lease.due);
        mine.push_back(offer->lease);
      }
    }
  }

  std::vector<Action> On(const Event& event) {
    std::vector<Action> actions = machine_->On(event, 1);
    std::map<std::string, std::vector<std::vector<TaskId>>> brought;
    for (const Action& action : actions) {
      if (const auto* offer = std::get_if<Offer>(&action); offer != nullptr && !offer->again) {
        course_.offers.insert(fmt::format("{} from {}", offer->lease.task, offer->lease.base_round));
        if (offer->lease.base_round < machine_->committed_round()) {
          EXPECT_TRUE(machine_->Needs(offer->lease.base_round));
        }
      } else if (const auto* wanted = std::get_if<HandOverPartial>(&action)) {
        brought[wanted->site].push_back(wanted->tasks);
      } else if (const auto* commit = std::get_if<Commit>(&action)) {
        Committed(*commit);
      }
    }
    for (const auto& [site, partials] : brought) {
      for (const std::vector<TaskId>& tasks : partials) {
        const Lease* lease = machine_->FindLease(tasks.at(0));
        if (lease == nullptr || lease->state != Lease::State::kHeld) continue;
        held_[site].erase(lease->base_round);
        const auto taken = machine_->On(PartialReported{site, tasks}, 1);
        EXPECT_THAT(taken, SizeIs(tasks.size()));
        On(Merged{tasks});
      }
    }
    return actions;
  }

  void Committed(const Commit& commit) {
    committing_ = true;
    std::vector<std::string>& version = course_.versions.emplace_back();
    for (const TaskId& task : commit.tasks) {
      const int64_t base = machine_->FindLease(task)->base_round;
      const int64_t late = commit.round - 1 - base;
      EXPECT_GE(late, 0);
      EXPECT_LE(late, rules_.policy.max_staleness);
      stale += late > 0;
      version.push_back(fmt::format("{} from {}", task, base));
    }
    std::set<std::string> once;
    for (const auto& made : course_.versions) {
      for (const std::string& task : made) {
        EXPECT_TRUE(once.insert(task).second) << task << " is in two versions";
        failed_ = failed_ || ::testing::Test::HasFailure();
      }
    }
  }

  const RunRules rules_;
  std::mt19937 random_;
  const int sites_;
  const bool kill_;
  std::optional<RunMachine> machine_;
  std::string durable_;
  std::vector<std::vector<std::string>> durable_versions_;
  std::map<std::string, std::vector<Lease>> in_hand_;
  std::map<std::string, std::map<int64_t, std::vector<TaskId>>> held_;
  bool committing_ = false, failed_ = false;
  Course course_;
};

// Two sites and five, undisturbed and killed, come to what one came to. How often they were killed.
int64_t ExpectTheSameOfMore(const RunRules& rules, uint64_t seed, const Course& course) {
  int64_t kills = 0;
  for (const int sites : {2, 5}) {
    Sites many(rules, static_cast<uint32_t>(seed) * 7 + static_cast<uint32_t>(sites), sites, false);
    EXPECT_EQ(many.Run(), course) << sites;
    Sites killed(rules, static_cast<uint32_t>(seed) * 5 + static_cast<uint32_t>(sites), sites, true);
    const Course after = killed.Run();
    EXPECT_EQ(after.versions, course.versions) << sites;
    EXPECT_EQ(after.offers, course.offers) << sites;
    kills += killed.kills;
  }
  return kills;
}

TEST(RunMachineOrderedTest, FirstToArrive_AreGivenOutAndTheOthersWait) {
  RunRules rules = OrderedRules(0, 3, 2, 5);
  rules.task_time = [](const std::string& client_id) { return client_id == "client-00001" ? 5 : 2; };
  auto machine = RunMachine::Create(rules, {.population = NumberedPopulation(4)});
  ASSERT_OK(machine);
  int64_t offers = 0;
  for (const Action& action : machine->On(Tick{}, 0)) offers += std::holds_alternative<Offer>(action);
  EXPECT_EQ(offers, 4) << "the first that arrives is followed by the next";
  EXPECT_EQ(machine->offered(), 2);
  std::vector<std::string> given;
  for (const Action& action : machine->On(SitePolled{"site", SitePolled::Serves::kAny, {}, 9}, 0)) {
    if (const auto* offer = std::get_if<Offer>(&action)) given.push_back(offer->lease.client_id);
  }
  EXPECT_THAT(given, SizeIs(1)) << "a fair share";
  // Who takes longer arrives later, although it was drawn at the beginning.
  for (const Lease& lease : machine->leases()) EXPECT_EQ(lease.due && lease.client_id == "client-00001", false);
}

// Who has its task and who is late: the round is made of the first, and nobody trains the others' tasks.
TEST(RunMachineOrderedTest, OverSelection_AnySitesInAnyOrder_MakeTheSameVersions) {
  int64_t failures = 0, kills = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const auto updates = 1 + static_cast<int64_t>(seed % 5);
    const RunRules rules = OverSelecting(seed, updates + 1 + static_cast<int64_t>(seed % 7), updates);
    Sites one(rules, 1, 1, false);
    const Course course = one.Run();
    EXPECT_EQ(course.phase, RunMachine::Phase::kFinished);
    for (const auto& version : course.versions) EXPECT_THAT(version, SizeIs(updates));
    failures += one.failures;
    kills += ExpectTheSameOfMore(rules, seed, course);
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(failures, 50);
  EXPECT_GT(kills, 50);
}

TEST(RunMachineOrderedTest, AnySitesInAnyOrder_MakeTheSameVersions) {
  int64_t stale = 0, failures = 0, kills = 0, finished = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<uint32_t>(seed));
    const RunRules rules = OrderedRules(seed, 1 + static_cast<int64_t>(random() % 9),
                                        1 + static_cast<int64_t>(random() % 5), static_cast<int64_t>(random() % 4));
    Sites one(rules, 1, 1, false);
    const Course course = one.Run();
    finished += course.phase == RunMachine::Phase::kFinished;
    stale += one.stale;
    failures += one.failures;
    kills += ExpectTheSameOfMore(rules, seed, course);
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_EQ(finished, 100);
  EXPECT_GT(stale, 200);
  EXPECT_GT(failures, 100);
  EXPECT_GT(kills, 300);
}

}  // namespace
}  // namespace rivulet
