// Property: wherever a process dies, at any sync, rename, removal or database write of a run, resuming the run (or
// starting it anew, when its first row was not written yet) gives the models of an undisturbed run, and every row once.
// Whoever works for it: clients that send their updates, a site of the same process, one of another.
//
// Of most cases every ninth operation is tried, each beginning at another one; scripts/kill-points.sh tries every
// operation of every case.
#include <cstdlib>
#include <string_view>

#include "killed_run.h"
#include "test_run.h"
#include "tests/testing/status_matchers.h"
#include "tiny_sites.h"
#include "whole_chain.h"

namespace rivulet {
namespace {

constexpr int64_t kRounds = 3, kClients = 4, kCohort = 2;

CoordinatorOptions Options(const std::string& db, const std::string& durability) {
  CoordinatorOptions options;
  options.scenario = TinyScenario(kClients, kCohort, kRounds);
  options.scenario.run.durability = durability;
  options.db_path = db;
  options.task_time = [](const std::string& client_id) { return client_id.back() == '1' ? 4 : 2; };
  return options;
}

// A server whose optimiser keeps vectors must find them again too, and so must clients; and of tasks that outlive
// versions the same must be under way.
RunParts PartsWith(const std::string& algorithm) {
  RunParts parts = TinyParts(3, kCohort);
  parts.keeps_state = algorithm == "counting";
  parts.most_state_bytes = 1000;
  if (algorithm == "latest") {
    parts.policy = {TaskPolicy::Base::kLatest, kClients - 1, 2, 0.5};
    parts.aggregation.staleness_bits = kStalenessBits;
  } else if (!parts.keeps_state) {
    parts.server_optimizer = {algorithm};
  }
  return parts;
}

enum class Works { kUploads, kSiteInPlace, kSiteElsewhere };

StatusOr<std::map<int64_t, std::string>> RunIt(const CoordinatorOptions& options, const RunParts& parts, Works works) {
  if (works == Works::kUploads) {
    // Their own disks, which lose nothing when the coordinator dies.
    const auto states = NewStateStore(FileSystem::Default(), FolderOf(options.db_path) + "/clients", false);
    return RunTiny(options, parts, kClients, parts.keeps_state ? states.get() : nullptr);
  }
  return RunTinySite(options, parts, kClients,
                     works == Works::kSiteInPlace ? SitePlace::kThisProcess : SitePlace::kAnother);
}

struct KillCase {
  Works works;
  std::string durability, algorithm;
  int every;  // of its operations, from `first` on; 1: all of them
  int first;
};

std::vector<KillCase> KillCases() {
  const char* const wanted = std::getenv("RIVULET_KILL_POINTS");
  const bool all = wanted != nullptr && std::string_view(wanted) == "all";
  std::vector<KillCase> cases;
  for (const Works works : {Works::kUploads, Works::kSiteInPlace, Works::kSiteElsewhere}) {
    for (const char* durability : {"round", "second", "end"}) {
      for (const char* algorithm : {"sgd", "adam", "counting", "latest"}) {
        // Clients that send their updates come in an order of their own.
        if (works == Works::kUploads && std::string_view(algorithm) == "latest") continue;
        const bool known = works == Works::kUploads &&
                           (std::string_view(algorithm) == "adam" ||
                            (std::string_view(durability) == "round" && std::string_view(algorithm) == "sgd"));
        const bool whole = all || known;
        const int number = static_cast<int>(cases.size());
        cases.push_back({works, durability, algorithm, whole ? 1 : 9, whole ? 1 : number % 9 + 1});
      }
    }
  }
  return cases;
}

class KillTest : public ::testing::TestWithParam<KillCase> {};
INSTANTIATE_TEST_SUITE_P(Matrix, KillTest, ::testing::ValuesIn(KillCases()), [](const auto& info) {
  const KillCase& c = info.param;
  return std::string(c.works == Works::kUploads       ? "Uploads"
                     : c.works == Works::kSiteInPlace ? "SiteInPlace"
                                                      : "SiteElsewhere") +
         "_" + c.durability + "_" + c.algorithm;
});

TEST_P(KillTest, AtDurableOperations_ResumeGivesTheSameBitsAndEveryRowOnce) {
  const KillCase& c = GetParam();
  const RunParts parts = PartsWith(c.algorithm);
  TestFolder reference_folder;
  const bool latest = c.algorithm == "latest";
  const auto reference =
      RunIt(Options(reference_folder.db(), ""), parts, latest ? Works::kSiteInPlace : Works::kUploads);
  ASSERT_OK(reference);
  ASSERT_EQ(reference->size(), static_cast<size_t>(kRounds));

  int points = 0, resumed = 0;
  for (int victim = c.first;; victim += c.every) {
    SCOPED_TRACE(fmt::format("killed at operation {}", victim));
    TestFolder folder;
    // With its tables made: they are the same for every point.
    ASSERT_OK((*History::Open(folder.db(), History::Access::kReadWrite))->Close());
    CoordinatorOptions options = Options(folder.db(), c.durability);
    if (testing::EndsBefore(victim, options,
                            [&](const CoordinatorOptions& doomed) { return RunIt(doomed, parts, c.works); }))
      break;
    ++points;
    {
      auto history = History::Open(folder.db(), History::Access::kReadOnly);
      ASSERT_OK(history);
      if ((*history)->ResolveRun("latest").ok()) options.resume = "latest";
    }
    resumed += !options.resume.empty();
    const auto digests = RunIt(options, parts, c.works);
    ASSERT_OK(digests);
    EXPECT_EQ(*digests, *reference);

    auto history = History::Open(folder.db(), History::Access::kReadOnly);
    ASSERT_OK(history);
    const auto run = (*history)->ResolveRun("latest");
    ASSERT_OK(run);
    EXPECT_EQ(run->status, "finished");
    EXPECT_EQ((*history)->Runs()->size(), 1u);
    EXPECT_EQ((*history)->Rounds(run->run_id)->size(), static_cast<size_t>(kRounds));
    ExpectWholeChain(**history, *run, kRounds);
    std::set<TaskId> folded;
    size_t rows = 0, late = 0;
    const std::vector<ClientRoundRow> tasks = Value((*history)->ClientRounds(run->run_id));
    for (const ClientRoundRow& task : tasks) {
      rows += task.status == "folded" || !latest;
      late += task.staleness.value_or(0) > 0;
      folded.insert(task.task_id);
    }
    EXPECT_EQ(rows, static_cast<size_t>(kRounds * kCohort));
    EXPECT_EQ(folded.size(), tasks.size()) << "each task has one row";
    EXPECT_EQ(late > 0, latest);
    const auto models = *(*history)->Models(run->run_id);
    ASSERT_EQ(models.size(), static_cast<size_t>(kRounds + 1));
    // run.keep_models = "last": the newest and the one that was written before it, which their rows name, and the lock.
    int files = 0, named = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder.db() + ".models/" + run->run_id)) {
      files += entry.path().filename().string().starts_with("round-");
    }
    EXPECT_EQ(files, 2);
    EXPECT_FALSE(models.back().path.empty());
    for (const ModelRow& model : models) {
      named += !model.path.empty();
      EXPECT_TRUE(std::filesystem::exists(folder.path() + "/" + model.path)) << model.path;
    }
    EXPECT_EQ(named, files);
    if (::testing::Test::HasFailure()) break;
  }
  // The run's new folders, syncs, renames and removals of two models at least (what waits together is written
  // together), and the writes of the transactions between them.
  EXPECT_GT(points * c.every, 60);
  EXPECT_GT(resumed * c.every, 40);
  RecordProperty("points", points);
}

}  // namespace
}  // namespace rivulet
