// Random events against the run machine, with a simple book of what must hold whatever happens. After every event the
// machine is saved and restored, and goes on from the copy: a snapshot loses nothing.
#include <map>
#include <random>
#include <set>

#include "coordinator/rounds/run_machine.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

// Keeps what the actions promised and checks each new one against it.
class Book {
 public:
  explicit Book(const RunRules& rules) : rules_(rules) {}

  void Check(const RunMachine& machine, const std::vector<Action>& actions) {
    for (const Action& action : actions) {
      if (const auto* offer = std::get_if<Offer>(&action)) {
        if (offer->again) {
          ASSERT_TRUE(open_.contains(offer->lease.task) || measured_.contains(offer->lease.task));
          continue;
        }
        if (offer->lease.kind == TaskKind::kEvaluate && offer->lease.step > 0) {
          ASSERT_TRUE(measured_.contains(offer->lease.task));
          continue;
        }
        if (offer->lease.kind == TaskKind::kEvaluate) {
          ASSERT_TRUE(all_tasks_.insert(offer->lease.task).second) << "task " << offer->lease.task << " twice";
          ASSERT_LE(offer->lease.base_round, committed_);
          ASSERT_TRUE(measured_.empty() || offer->lease.base_round == measured_version_);
          measured_version_ = offer->lease.base_round;
          measured_.insert(offer->lease.task);
          continue;
        }
        if (offer->lease.step > 0) {
          ASSERT_TRUE(open_.contains(offer->lease.task));
          behind_a_barrier_ = {offer->round, offer->attempt};
          continue;
        }
        ASSERT_NE(behind_a_barrier_, std::pair(offer->round, offer->attempt)) << "replaced behind a barrier";
        if (open_round_ != std::pair(offer->round, offer->attempt)) {
          ASSERT_TRUE(closed_) << "a cohort is drawn while another is open";
          closed_ = false;
          open_.clear();
          open_round_ = {offer->round, offer->attempt};
          ASSERT_EQ(offer->round, committed_ + 1);
        }
        ASSERT_FALSE(closed_);
        ASSERT_TRUE(all_tasks_.insert(offer->lease.task).second) << "task " << offer->lease.task << " twice";
        open_.insert(offer->lease.task);
        if (!rules_.policy.replace) {
          ASSERT_LE(static_cast<int64_t>(open_.size()), rules_.policy.in_flight);
        }
        ASSERT_EQ(offer->lease.base_round, committed_);
      } else if (const auto* fold = std::get_if<Fold>(&action)) {
        if (!measured_.contains(fold->task)) {
          ASSERT_FALSE(closed_);
          ASSERT_TRUE(open_.contains(fold->task));
        }
        ASSERT_EQ(machine.FindLease(fold->task)->step,
                  rules_.sum_step >= 0 ? rules_.sum_step : static_cast<int>(rules_.barriers.size()));
        ASSERT_TRUE(folds_.insert(fold->task).second) << fold->task << " is folded twice";
      } else if (const auto* evaluated = std::get_if<Evaluated>(&action)) {
        for (const TaskId& task : evaluated->tasks) ASSERT_TRUE(folded_.contains(task) && measured_.contains(task));
        ASSERT_TRUE(!evaluated->reason.empty() || !evaluated->tasks.empty());
        if (const int64_t least = rules_.evaluation.min_reports; least > 0 && rules_.sum_step < 0) {
          ASSERT_EQ(evaluated->reason.empty(), std::ssize(evaluated->tasks) >= least) << evaluated->reason;
        }
        measured_.clear();
      } else if (const auto* close = std::get_if<Close>(&action)) {
        if (close->kind == TaskKind::kEvaluate) continue;
        ASSERT_FALSE(closed_);
        ASSERT_EQ(std::pair(close->round, close->attempt), open_round_);
        closed_ = true;
      } else if (const auto* commit = std::get_if<Commit>(&action)) {
        ASSERT_TRUE(closed_);
        ASSERT_LE(static_cast<int64_t>(commit->tasks.size()), rules_.policy.updates_per_version);
        ASSERT_GE(static_cast<int64_t>(commit->tasks.size()), std::max<int64_t>(rules_.min_reports, 1));
        for (const TaskId& task : commit->tasks) ASSERT_TRUE(folded_.contains(task)) << task << " was not folded";
        for (const TaskId& task : open_) {
          const bool in = std::find(commit->tasks.begin(), commit->tasks.end(), task) != commit->tasks.end();
          ASSERT_EQ(in, folded_.contains(task)) << task;
        }
      }
    }
    int64_t states = 0;
    for (size_t state = 0; state < Lease::kStates; ++state)
      states += machine.CountInState(static_cast<Lease::State>(state));
    ASSERT_EQ(states, static_cast<int64_t>(machine.leases().size()));
    const int64_t lost = machine.CountInState(Lease::State::kRefused) + machine.CountInState(Lease::State::kDropped) +
                         machine.CountInState(Lease::State::kFailed);
    // Whose lease had lapsed may come back beside whoever took its place.
    if (rules_.lease_ms == 0) {
      ASSERT_LE(states - lost, rules_.policy.in_flight);
    }
  }
  void Folded(const TaskId& task) { folded_.insert(task); }
  void Committed() { ++committed_; }
  int64_t committed() const { return committed_; }

 private:
  const RunRules rules_;
  int64_t committed_ = 0;
  std::pair<int64_t, int64_t> open_round_ = {0, 0};
  bool closed_ = true;
  std::set<TaskId> open_, all_tasks_, folds_, folded_;
  std::set<TaskId> measured_;  // of the evaluation that is open
  int64_t measured_version_ = 0;
  std::pair<int64_t, int64_t> behind_a_barrier_;
};

TEST(RunMachineRandomTest, AnyEvents_KeepTheBookBalanced) {
  int finished = 0, failed = 0, evaluations = 0, steps = 0, settled = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
    RunRules rules;
    rules.run_id = "run";
    rules.seed = seed;
    rules.rounds = 1 + below(4);
    rules.policy.in_flight = 1 + below(4);
    rules.policy.updates_per_version = 1 + below(4);
    rules.min_clients = below(6);
    rules.min_reports = below(2) * static_cast<int>(std::min(rules.policy.in_flight, rules.policy.updates_per_version));
    rules.deadline_ms = 50 * below(3);
    rules.max_attempts = 1 + below(4);
    rules.policy.replace = below(2) == 0;
    rules.presence_ms = 40 * below(3);
    rules.lease_ms = 30 * below(3);
    rules.retry.first_pause_ms = 10 * below(3);
    if (seed % 3 == 1) {
      rules.evaluation = {1 + below(2), 1 + below(3), 0};
      if (below(2) == 0) rules.evaluation.min_reports = 1;
    }
    if (seed % 3 == 2) rules.barriers.resize(static_cast<size_t>(1 + below(2)), {below(2), 30 * below(2)});
    if (seed % 6 == 5) {
      rules.sum_step = below(static_cast<int>(rules.barriers.size()) + 1);
      rules.policy.in_flight = std::min(rules.policy.in_flight, rules.policy.updates_per_version);
    }
    if (seed % 3 == 2 && below(2) == 0) rules.evaluation = {1, 1 + below(2), 1};
    auto created = RunMachine::Create(rules, RunStart{});
    ASSERT_OK(created);
    RunMachine machine = *std::move(created);
    Book book(rules);
    std::vector<TaskId> tasks = {"run-r1-a1-nobody-0"};
    TimeMs now = 1;
    bool measured = false;  // and its rows are not written
    for (int step = 0; step < 400 && !machine.over(); ++step) {
      now += below(10);
      const std::string client = fmt::format("c{}", below(6));
      const TaskId task =
          tasks[tasks.size() - 1 - static_cast<size_t>(below(static_cast<int>(std::min<size_t>(tasks.size(), 6))))];
      Event event;
      switch (below(10)) {
        case 0:
          event = ClientsJoined{{client}};
          break;
        case 1:
          event = below(8) == 0 ? Event(ClientLeft{client}) : Event(ClientsJoined{{client}});
          break;
        case 2:
          event = Polled{client};
          break;
        case 3:
        case 4:
        case 5: {
          const Lease* lease = machine.LeaseOf(client, below(4) == 0 ? TaskKind::kEvaluate : TaskKind::kTrain);
          event = StepReported{client, lease != nullptr && below(8) != 0 ? lease->task : task,
                               lease != nullptr ? lease->step : 0, below(10) == 0, "no"};
          break;
        }
        case 6:
        case 7:
          event = StageDone{task, below(8) != 0, "NaN"};
          break;
        case 8:
          event = FoldDone{task, true, ""};
          if (rules.sum_step >= 0 && below(2) == 0) {
            const std::vector<Lease> measuring = machine.leases(TaskKind::kEvaluate);
            const bool past_sum = std::ranges::any_of(
                measuring, [&](const Lease& lease) { return !lease.resolved() && lease.step > rules.sum_step; });
            event = SumSettled{below(4) != 0, "it cannot be read", past_sum ? TaskKind::kEvaluate : TaskKind::kTrain};
          }
          break;
        default:
          if (machine.phase() == RunMachine::Phase::kCommitting || machine.phase() == RunMachine::Phase::kAbandoning) {
            if (machine.phase() == RunMachine::Phase::kCommitting) book.Committed();
            event = CommitDone{};
          } else if (measured && below(2) == 0) {
            measured = false;
            event = EvaluationDone{};
          } else {
            event = Tick{};
          }
      }
      // The outside world folds what it was told to fold, and nothing else.
      if (const auto* fold = std::get_if<FoldDone>(&event)) {
        const Lease* lease = machine.FindLease(fold->task);
        if (lease == nullptr || lease->state != Lease::State::kFolding) continue;
        book.Folded(fold->task);
      }
      auto copy = RunMachine::Restore(rules, machine.Save());
      ASSERT_OK(copy);
      const std::vector<Action> actions = machine.On(event, now);
      const std::vector<Action> again = copy->On(event, now);
      ASSERT_EQ(actions.size(), again.size());
      for (size_t i = 0; i < actions.size(); ++i) ASSERT_EQ(Describe(actions[i], "run"), Describe(again[i], "run"));
      ASSERT_EQ(machine.Save(), copy->Save());
      machine = *std::move(copy);
      ASSERT_NO_FATAL_FAILURE(book.Check(machine, actions));
      ASSERT_EQ(machine.committed_round(), book.committed());
      for (const Action& action : actions) {
        if (const auto* offer = std::get_if<Offer>(&action)) tasks.push_back(offer->lease.task);
        evaluations += std::holds_alternative<Evaluated>(action);
        measured |= std::holds_alternative<Evaluated>(action);
        steps += std::holds_alternative<Offer>(action) && std::get<Offer>(action).lease.step > 0;
        settled += std::holds_alternative<Commit>(action) && std::holds_alternative<SumSettled>(event);
      }
    }
    finished += machine.phase() == RunMachine::Phase::kFinished;
    failed += machine.phase() == RunMachine::Phase::kFailed;
  }
  // The events reach both ends.
  EXPECT_GT(finished, 20);
  EXPECT_GT(failed, 20);
  EXPECT_GT(evaluations, 20);
  EXPECT_GT(steps, 50);
  EXPECT_GT(settled, 0);
}

// Sites of many names beside clients of their own: they fold into partials, forget all of it when they are restarted,
// and are cut off in merges. What they bring is never refused for want of room.
TEST(RunMachineRandomTest, SitesThatHoldAndHandOver_KeepTheBookBalanced) {
  struct Site {
    std::vector<std::pair<uint64_t, TaskId>> queue;  // with what they are gathered for
    std::map<uint64_t, std::vector<TaskId>> partials;
    std::vector<TaskId> merging;
  };
  int finished = 0, failed = 0, partials = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
    RunRules rules;
    rules.run_id = "run";
    rules.seed = seed;
    rules.rounds = 1 + static_cast<int64_t>(below(4));
    rules.policy.in_flight = 1 + static_cast<int64_t>(below(6));
    rules.policy.updates_per_version = 1 + static_cast<int64_t>(below(6));
    rules.min_clients = 1 + static_cast<int64_t>(below(6));
    const int64_t most = std::min(rules.policy.in_flight, rules.policy.updates_per_version);
    rules.min_reports = below(2) == 0 ? 0 : 1 + static_cast<int64_t>(below(static_cast<size_t>(most)));
    rules.min_reports = std::min(rules.min_reports, rules.min_clients);
    rules.deadline_ms = below(2) == 0 ? 0 : 300;
    rules.max_attempts = 1 + static_cast<int64_t>(below(4));
    rules.policy.replace = below(2) == 0;
    rules.lease_ms = below(2) == 0 ? 0 : 100;
    auto created = RunMachine::Create(rules, RunStart{});
    ASSERT_OK(created);
    RunMachine machine = *std::move(created);
    Book book(rules);
    std::map<std::string, Site> sites = {{"s0", {}}, {"s1", {}}, {"s2", {}}};
    TimeMs now = 1;

    // Feeds the machine and a restored copy of it, checks the book, and goes on from the copy.
    const auto feed = [&](const Event& event) {
      std::vector<Action> actions;
      const auto check = [&] {
        auto copy = RunMachine::Restore(rules, machine.Save());
        ASSERT_OK(copy);
        actions = machine.On(event, now);
        const std::vector<Action> again = copy->On(event, now);
        ASSERT_EQ(actions.size(), again.size());
        for (size_t i = 0; i < actions.size(); ++i) ASSERT_EQ(Describe(actions[i], "run"), Describe(again[i], "run"));
        ASSERT_EQ(machine.Save(), copy->Save());
        machine = *std::move(copy);
        ASSERT_NO_FATAL_FAILURE(book.Check(machine, actions));
        ASSERT_EQ(machine.committed_round(), book.committed());
      };
      check();
      return actions;
    };
    const auto give_up = [&](const std::string& name, const std::vector<TaskId>& tasks) {
      for (const TaskId& task : tasks) feed(StepReported{name, task, 0, true, "lost"});
    };
    const auto hand_over = [&](const std::string& name, uint64_t gather) {
      Site& site = sites.at(name);
      if (!site.merging.empty() || site.partials[gather].empty()) return;
      const std::vector<TaskId> tasks = std::exchange(site.partials[gather], {});
      const std::vector<Action> actions = feed(PartialReported{name, tasks});
      ASSERT_FALSE(actions.empty());
      if (std::holds_alternative<Fold>(actions[0])) {
        ASSERT_EQ(actions.size(), tasks.size());
        site.merging = tasks;
        ++partials;
      } else {
        ASSERT_THAT(std::get<Refuse>(actions[0]).reason, ::testing::Not(::testing::HasSubstr("had enough")));
        give_up(name, tasks);
      }
    };
    const auto poll = [&](const std::string& name) {
      Site& site = sites.at(name);
      SitePolled event{name, SitePolled::Serves::kAny, {}, static_cast<int64_t>(below(5))};
      for (const auto& [gather, task] : site.queue) event.working_on.push_back({task});
      for (const auto& [gather, tasks] : site.partials) {
        for (const TaskId& task : tasks) event.working_on.push_back({task, true});
      }
      for (const Action& action : feed(event)) {
        if (const auto* offer = std::get_if<Offer>(&action); offer != nullptr && offer->again) {
          site.queue.push_back({GatherOf(offer->round, offer->attempt), offer->lease.task});
        } else if (const auto* cancel = std::get_if<Cancel>(&action)) {
          std::erase_if(site.queue, [&](const auto& entry) { return entry.second == cancel->task; });
          for (auto& [gather, tasks] : site.partials) {
            if (std::find(tasks.begin(), tasks.end(), cancel->task) == tasks.end()) continue;
            give_up(name, std::exchange(tasks, {}));
          }
        } else if (const auto* asked = std::get_if<HandOverPartial>(&action); asked != nullptr && asked->site == name) {
          const std::vector<TaskId>& mine = site.partials[asked->gather];
          for (const TaskId& task : asked->tasks) {
            if (std::find(mine.begin(), mine.end(), task) == mine.end()) give_up(name, {task});
          }
          hand_over(name, asked->gather);
        }
      }
    };

    for (int step = 0; step < 600 && !machine.over(); ++step) {
      now += static_cast<TimeMs>(below(10));
      const std::string name = fmt::format("s{}", below(3));
      Site& site = sites.at(name);
      const std::string client = fmt::format("c{}", below(8));
      switch (below(10)) {
        case 0:
          feed(below(30) == 0 ? Event(ClientLeft{client}) : Event(ClientsJoined{{client}}));
          break;
        case 1:
        case 2:
          if (below(30) == 0) {  // restarted; what it has handed over is merged without it
            site.queue.clear();
            site.partials.clear();
          }
          poll(name);
          break;
        case 3:
        case 4:
          if (site.queue.empty()) break;
          if (below(12) == 0) {
            feed(StepReported{name, site.queue[0].second, 0, true, "no"});
          } else {
            site.partials[site.queue[0].first].push_back(site.queue[0].second);
          }
          site.queue.erase(site.queue.begin());
          break;
        case 5:
          if (below(4) == 0 && !site.partials.empty()) hand_over(name, site.partials.rbegin()->first);
          break;
        case 6:
        case 7:
          // The outside world merges what it was told to fold.
          if (!site.merging.empty()) {
            const bool ok = below(10) != 0;
            const std::vector<TaskId> tasks = std::exchange(site.merging, {});
            if (ok) {
              for (const TaskId& task : tasks) book.Folded(task);
            }
            feed(Merged{tasks, ok, "it is damaged"});
          }
          break;
        case 8:
          if (!machine.knows(client)) break;
          if (below(4) == 0) feed(Polled{client});
          if (const Lease* lease = machine.LeaseOf(client); lease != nullptr && lease->site == client) {
            const TaskId task = lease->task;
            const auto is = [&](const std::vector<Action>& actions, auto kind) {
              return actions.size() == 1 && std::holds_alternative<decltype(kind)>(actions[0]);
            };
            if (!is(feed(StepReported{client, task}), Stage{})) break;
            if (!is(feed(StageDone{task, below(8) != 0, "NaN"}), Fold{})) break;
            book.Folded(task);
            feed(FoldDone{task});
          }
          break;
        default:
          if (machine.phase() == RunMachine::Phase::kCommitting || machine.phase() == RunMachine::Phase::kAbandoning) {
            if (machine.phase() == RunMachine::Phase::kCommitting) book.Committed();
            feed(CommitDone{});
          } else {
            feed(Tick{});
          }
      }
      if (HasFatalFailure()) return;
    }
    finished += machine.phase() == RunMachine::Phase::kFinished;
    failed += machine.phase() == RunMachine::Phase::kFailed;
  }
  EXPECT_GT(finished, 20);
  EXPECT_GT(failed, 20);
  EXPECT_GT(partials, 200);
}

}  // namespace
}  // namespace rivulet
