// Property: wherever a process dies, at any sync, rename, removal or database write of a run, resuming the run (or
// starting it anew, when its first row was not written yet) gives the models of an undisturbed run, and every row once.
#include <sys/wait.h>

#include <atomic>

#include "faulty_file_system.h"
#include "faulty_sqlite.h"
#include "test_run.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

constexpr int64_t kRounds = 3, kClients = 4, kCohort = 2;

CoordinatorOptions Options(const std::string& db, const std::string& durability) {
  CoordinatorOptions options;
  options.scenario = TinyScenario(kClients, kCohort, kRounds);
  options.scenario.run.durability = durability;
  options.db_path = db;
  return options;
}

// A server whose optimiser keeps vectors must find them again too.
RunParts PartsWith(const std::string& optimizer) {
  RunParts parts = TinyParts(3, kCohort);
  parts.server_optimizer = {optimizer};
  return parts;
}

// Runs in a child process that is killed at its `victim`th durable operation; true when it ended by itself before that.
bool RunUntilKilled(CoordinatorOptions options, const RunParts& parts, int victim) {
  const pid_t child = fork();
  if (child == 0) {
    FaultyFileSystem fs;
    std::atomic<int> count = 0;
    const auto at = [&](const std::string&) {
      if (++count == victim) {
        fs.LoseUnsynced();
        kill(getpid(), SIGKILL);
      }
      return true;
    };
    fs.at = [&](const std::string& point) {
      at(point);
      return absl::OkStatus();
    };
    InstallFaultySqlite(at);
    options.file_system = &fs;
    const auto digests = RunTiny(options, parts, kClients);
    if (!digests.ok()) fprintf(stderr, "child: %s\n", std::string(Message(digests.status())).c_str());
    _exit(digests.ok() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) {
    EXPECT_EQ(WEXITSTATUS(status), 0);
    return true;
  }
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  return false;
}

struct KillCase {
  std::string durability, optimizer;
};
class KillTest : public ::testing::TestWithParam<KillCase> {};
INSTANTIATE_TEST_SUITE_P(Durability, KillTest,
                         ::testing::Values(KillCase{"round", "sgd"}, KillCase{"round", "adam"},
                                           KillCase{"second", "adam"}, KillCase{"end", "adam"}),
                         [](const auto& info) { return info.param.durability + "_" + info.param.optimizer; });

TEST_P(KillTest, AtEveryDurableOperation_ResumeGivesTheSameBitsAndEveryRowOnce) {
  const RunParts parts = PartsWith(GetParam().optimizer);
  TestFolder reference_folder;
  const auto reference = RunTiny(Options(reference_folder.db(), ""), parts, kClients);
  ASSERT_OK(reference);
  ASSERT_EQ(reference->size(), static_cast<size_t>(kRounds));

  int points = 0, resumed = 0;
  for (int victim = 1;; ++victim) {
    SCOPED_TRACE(fmt::format("killed at operation {}", victim));
    TestFolder folder;
    // With its tables made: they are the same for every point.
    ASSERT_OK((*History::Open(folder.db(), History::Access::kReadWrite))->Close());
    CoordinatorOptions options = Options(folder.db(), GetParam().durability);
    if (RunUntilKilled(options, parts, victim)) break;
    ++points;
    {
      auto history = History::Open(folder.db(), History::Access::kReadOnly);
      ASSERT_OK(history);
      if ((*history)->ResolveRun("latest").ok()) options.resume = "latest";
    }
    resumed += !options.resume.empty();
    const auto digests = RunTiny(options, parts, kClients);
    ASSERT_OK(digests);
    EXPECT_EQ(*digests, *reference);

    auto history = History::Open(folder.db(), History::Access::kReadOnly);
    ASSERT_OK(history);
    const auto run = (*history)->ResolveRun("latest");
    ASSERT_OK(run);
    EXPECT_EQ(run->status, "finished");
    EXPECT_EQ((*history)->Runs()->size(), 1u);
    EXPECT_EQ((*history)->Rounds(run->run_id)->size(), static_cast<size_t>(kRounds));
    EXPECT_EQ((*history)->ClientRounds(run->run_id)->size(), static_cast<size_t>(kRounds * kCohort));
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
  // The run's new folders, syncs, renames and removals of two models at least (what waits together is written together),
  // and the writes of the transactions between them.
  EXPECT_GT(points, 60);
  EXPECT_GT(resumed, 40);
}

}  // namespace
}  // namespace rivulet
