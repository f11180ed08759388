// server.checkpoint_reports in a tree. Property: wherever an aggregator or its parent dies, no client is asked again
// for an acknowledged update, and the models are those of an undisturbed run.
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/coordinator/faulty_file_system.h"
#include "tests/testing/status_matchers.h"
#include "tree.h"

namespace rivulet {
namespace {

using ::testing::IsEmpty;

constexpr int64_t kKeptElements = 5, kKeepers = 4, kKeepersPerRound = 3, kKeptRounds = 3;

int64_t FilesBelow(const std::string& folder) {
  int64_t files = 0;
  std::error_code none;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, none))
    files += entry.is_regular_file();
  return files;
}

// An aggregator on a machine that may be switched off at any of its durable operations: that one fails, as all that
// come later do, and what was not synced is lost. Whoever called meanwhile has no answer that it could believe.
class MortalAggregator {
 public:
  MortalAggregator(CoordinatorApi& parent, Address& address, const RunParts& parts, std::string folder,
                   std::string name)
      : parent_(parent), address_(address), parts_(parts), folder_(std::move(folder)), name_(std::move(name)) {
    SwitchOn(0);
  }
  ~MortalAggregator() { SwitchOff(); }

  // `victim`: the operation at which it dies, from 1 on; 0: none.
  void SwitchOn(int victim) {
    operations_ = 0;
    dead_ = false;
    files_ = std::make_unique<FaultyFileSystem>();
    files_->at = [this, victim](const std::string&) -> Status {
      if (++operations_ == victim) {
        MutexLock lock(mutex_);
        dead_ = true;
        changed_.NotifyAll();
      }
      if (dead_) return Internal("the machine is off");
      return absl::OkStatus();
    };
    aggregator_ = std::make_unique<RunningAggregator>(parent_, name_, parts_, folder_, files_.get());
    address_.Set(&aggregator_->aggregator());
  }
  void SwitchOff() {
    dead_ = true;
    address_.Set(nullptr);
    aggregator_.reset();
    files_->LoseUnsynced();
  }
  // Until it dies, or `ended`.
  bool AwaitDeath(const std::atomic<bool>& ended) {
    MutexLock lock(mutex_);
    while (!dead_ && !ended) changed_.WaitFor(mutex_, std::chrono::milliseconds(2));
    return dead_;
  }
  bool dead() const { return dead_; }
  // When the run is over.
  Status End() { return aggregator_->End(); }

 private:
  CoordinatorApi& parent_;
  Address& address_;
  const RunParts parts_;
  const std::string folder_, name_;
  std::atomic<int> operations_ = 0;
  std::atomic<bool> dead_ = false;
  Mutex mutex_;
  CondVar changed_;
  std::unique_ptr<FaultyFileSystem> files_;
  std::unique_ptr<RunningAggregator> aggregator_;
};

class AggregatorPersistedUpdatesTest : public ::testing::Test {
 protected:
  static RunParts Parts(bool latest) {
    RunParts parts = TinyParts(kKeptElements, kKeepersPerRound);
    parts.aggregation.scalars = {{.name = "train_loss"}};
    if (!latest) return parts;
    parts.policy = {TaskPolicy::Base::kLatest, kKeepers - 1, 4, 0.5};
    parts.aggregation.staleness_bits = kStalenessBits;
    return parts;
  }
  CoordinatorOptions Options(const std::string& db) {
    CoordinatorOptions options;
    options.scenario = TinyScenario(kKeepers, kKeepersPerRound, kKeptRounds);
    options.scenario.server.min_clients = kKeepers;
    options.scenario.server.checkpoint_reports = true;
    options.db_path = db;
    return options;
  }

  // A run of all clients through `levels` aggregators one below the other, of which the lowest (`depth` 0 the highest)
  // dies at its operation `victim`. False: it did not come to that.
  bool RunThrough(int levels, int mortal, int victim, bool latest) {
    const TestFolder folder;
    const RunParts parts = Parts(latest);
    const auto coordinator = Value(CreateCoordinator(Options(folder.db()), parts));
    Address root;
    root.Set(coordinator.get());
    std::deque<Address> addresses;
    std::deque<ThroughAddress> ways;
    std::deque<MortalAggregator> aggregators;
    Address* above = &root;
    for (int level = 0; level < levels; ++level) {
      ways.emplace_back(*above);
      above = &addresses.emplace_back();
      aggregators.emplace_back(ways.back(), *above, parts, folder.path(), fmt::format("aggregator {}", level));
    }
    MortalAggregator& doomed = aggregators[static_cast<size_t>(mortal)];
    doomed.SwitchOff();
    doomed.SwitchOn(victim);
    Acknowledgements remembered;
    std::vector<std::thread> clients;
    for (const std::string& name : Names(kKeepers)) {
      clients.emplace_back([&, name] { EXPECT_OK(LiveAsClient(*above, name, parts, &remembered)); });
    }
    std::atomic<bool> ended = false;
    bool died = false;
    std::thread switches([&] {
      died = doomed.AwaitDeath(ended);
      if (!died) return;
      doomed.SwitchOff();
      doomed.SwitchOn(0);
    });
    EXPECT_OK(coordinator->Wait());
    ended = true;
    switches.join();
    for (std::thread& client : clients) client.join();
    EXPECT_THAT(remembered.asked_again(), IsEmpty());
    for (MortalAggregator& aggregator : aggregators) EXPECT_OK(aggregator.End());
    died = died || doomed.dead();
    // What an aggregator that died while it cleared up has left is of the last rounds alone, and the file that it was
    // writing.
    for (int level = 0; level < levels; ++level) {
      EXPECT_LE(FilesBelow(folder.File(fmt::format("aggregator {}", level))), died ? 2 * kKeepers + 1 : 0);
    }
    digests_ = Value(DigestsOfRun(folder.db(), coordinator->run_id()));
    std::set<TaskId> folded;
    for (const ClientRoundRow& row :
         Value(Value(History::Open(folder.db(), History::Access::kReadOnly))->ClientRounds(coordinator->run_id()))) {
      if (row.status != "folded") continue;
      EXPECT_TRUE(folded.insert(row.task_id).second) << row.task_id << " is folded twice";
    }
    if (!latest) {
      for (const TaskId& task : remembered.tasks()) EXPECT_TRUE(folded.contains(task)) << task << " is lost";
    }
    return died;
  }

  std::map<int64_t, std::string> digests_;
};

struct AggregatorKillCase {
  const char* name;
  int levels, mortal;
  bool latest;
};
class AggregatorKillTest : public AggregatorPersistedUpdatesTest,
                           public ::testing::WithParamInterface<AggregatorKillCase> {};
INSTANTIATE_TEST_SUITE_P(Matrix, AggregatorKillTest,
                         ::testing::Values(AggregatorKillCase{"OneAggregator", 1, 0, false},
                                           AggregatorKillCase{"Lower", 2, 1, false},
                                           AggregatorKillCase{"Latest", 1, 0, true}),
                         [](const auto& info) { return info.param.name; });

TEST_P(AggregatorKillTest, AtEachDurableOperation_NobodyIsAskedAgainAndTheModelsAreTheSame) {
  const AggregatorKillCase& c = GetParam();
  const TestFolder flat;
  const auto reference = Value(RunTiny(Options(flat.db()), Parts(false), kKeepers));
  int points = 0;
  for (int victim = 1;; victim += 3) {
    SCOPED_TRACE(fmt::format("killed at operation {}", victim));
    if (!RunThrough(c.levels, c.mortal, victim, c.latest)) break;
    ++points;
    if (!c.latest) {
      ASSERT_EQ(digests_, reference);
    }
    if (HasFailure()) break;
  }
  EXPECT_GT(points, 10);
}

}  // namespace
}  // namespace rivulet
