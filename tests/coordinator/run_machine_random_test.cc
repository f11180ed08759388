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
          ASSERT_TRUE(open_.contains(offer->lease.task));
          continue;
        }
        if (open_round_ != std::pair(offer->round, offer->attempt)) {
          ASSERT_TRUE(closed_) << "a cohort is drawn while another is open";
          closed_ = false;
          open_.clear();
          open_round_ = {offer->round, offer->attempt};
          ASSERT_EQ(offer->round, committed_ + 1);
        }
        ASSERT_TRUE(all_tasks_.insert(offer->lease.task).second) << "task " << offer->lease.task << " twice";
        open_.insert(offer->lease.task);
        ASSERT_LE(static_cast<int64_t>(open_.size()), rules_.dial.in_flight);
        ASSERT_EQ(offer->lease.base_round, committed_);
      } else if (const auto* fold = std::get_if<Fold>(&action)) {
        ASSERT_FALSE(closed_);
        ASSERT_TRUE(open_.contains(fold->task));
        ASSERT_TRUE(folds_.insert(fold->task).second) << fold->task << " is folded twice";
      } else if (const auto* close = std::get_if<Close>(&action)) {
        ASSERT_FALSE(closed_);
        ASSERT_EQ(std::pair(close->round, close->attempt), open_round_);
        closed_ = true;
      } else if (const auto* commit = std::get_if<Commit>(&action)) {
        ASSERT_TRUE(closed_);
        ASSERT_LE(static_cast<int64_t>(commit->tasks.size()), rules_.dial.updates_per_version);
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
};

TEST(RunMachineRandomTest, AnyEvents_KeepTheBookBalanced) {
  int finished = 0, failed = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
    RunRules rules;
    rules.run_id = "run";
    rules.seed = seed;
    rules.rounds = 1 + below(4);
    rules.dial.in_flight = 1 + below(4);
    rules.dial.updates_per_version = 1 + below(4);
    rules.min_clients = below(6);
    rules.min_reports = below(2) * static_cast<int>(std::min(rules.dial.in_flight, rules.dial.updates_per_version));
    rules.deadline_ms = 50 * below(3);
    rules.max_attempts = 1 + below(4);
    auto created = RunMachine::Create(rules, RunStart{});
    ASSERT_OK(created);
    RunMachine machine = *std::move(created);
    Book book(rules);
    std::vector<TaskId> tasks = {"run-r1-a1-nobody-0"};
    TimeMs now = 1;
    for (int step = 0; step < 400 && !machine.over(); ++step) {
      now += below(10);
      const std::string client = fmt::format("c{}", below(6));
      const TaskId task =
          tasks[tasks.size() - 1 - static_cast<size_t>(below(static_cast<int>(std::min<size_t>(tasks.size(), 6))))];
      Event event;
      switch (below(10)) {
        case 0:
          event = Joined{{client}};
          break;
        case 1:
          event = below(8) == 0 ? Event(Left{client}) : Event(Joined{{client}});
          break;
        case 2:
          event = Polled{client};
          break;
        case 3:
        case 4:
        case 5: {
          const Lease* lease = machine.LeaseOf(client);
          event = StepReported{client, lease != nullptr && below(8) != 0 ? lease->task : task, 0, below(10) == 0, "no"};
          break;
        }
        case 6:
        case 7:
          event = StageDone{task, below(8) != 0, "NaN"};
          break;
        case 8:
          event = FoldDone{task, true, ""};
          break;
        default:
          if (machine.phase() == RunMachine::Phase::kCommitting || machine.phase() == RunMachine::Phase::kAbandoning) {
            if (machine.phase() == RunMachine::Phase::kCommitting) book.Committed();
            event = CommitDone{};
          } else {
            event = Tick{};
          }
      }
      // The outside world folds what it was told to fold, and nothing else.
      if (const auto* fold = std::get_if<FoldDone>(&event)) {
        bool folding = false;
        for (const Lease& lease : machine.leases()) {
          folding |= lease.task == fold->task && lease.state == Lease::State::kFolding;
        }
        if (!folding) continue;
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
      }
    }
    finished += machine.phase() == RunMachine::Phase::kFinished;
    failed += machine.phase() == RunMachine::Phase::kFailed;
  }
  // The events reach both ends.
  EXPECT_GT(finished, 20);
  EXPECT_GT(failed, 20);
}

}  // namespace
}  // namespace rivulet
