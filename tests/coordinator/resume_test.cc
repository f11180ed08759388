#include <sys/wait.h>

#include <atomic>
#include <semaphore>
#include <thread>

#include "coordinator/history/database.h"
#include "coordinator/stored_run.h"
#include "faulty_sqlite.h"
#include "test_run.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

class ResumeTest : public ::testing::Test {
 protected:
  CoordinatorOptions Options(int64_t rounds) {
    CoordinatorOptions options;
    options.scenario = TinyScenario(6, 3, rounds);
    options.db_path = folder_.db();
    return options;
  }
  // Until the rows of a round are there: what else is ready by then is written with them.
  void WaitForRows(const std::string& db, const std::string& run_id, int64_t round) {
    const auto reader = *History::Open(db, History::Access::kReadOnly);
    while (reader->FindResumePoint(run_id)->committed_round < round) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  // Runs two rounds of five, each written before the next, then stops.
  void Interrupt() { Interrupt(Options(5)); }
  void Interrupt(CoordinatorOptions options) {
    FakeFleet fleet(options);
    auto created = CreateCoordinator(options, TinyParts(4, 3));
    ASSERT_OK(created);
    Coordinator& coordinator = **created;
    fleet.act = [&](Coordinator& c, const std::string& client_id, const Task& task) {
      WaitForRows(options.db_path, c.run_id(), task.base_version);
      if (task.base_version == 2) return c.Stop();
      EXPECT_OK(FakeFleet::Work(c, client_id, task));
    };
    EXPECT_THAT(fleet.Run(coordinator, Names(6)), StatusIs(absl::StatusCode::kCancelled));
    run_id_ = coordinator.run_id();
  }
  std::string ResumeError(CoordinatorOptions options, RunParts parts = TinyParts(4, 3)) {
    options.resume = run_id_;
    const auto created = CreateCoordinator(std::move(options), std::move(parts));
    return created.ok() ? "resumed" : std::string(Message(created.status()));
  }
  std::string ModelFile() const { return folder_.db() + ".models/" + run_id_ + "/round-000002.safetensors"; }

  TestFolder folder_;
  std::string run_id_;
};

TEST_F(ResumeTest, Interrupted_GoesOnToTheSameBits) {
  TestFolder reference_folder;
  CoordinatorOptions reference_options = Options(5);
  reference_options.db_path = reference_folder.db();
  const auto reference = RunTiny(reference_options, TinyParts(4, 3), 6);
  ASSERT_OK(reference);
  Interrupt();
  {
    auto history = *History::Open(folder_.db(), History::Access::kReadOnly);
    EXPECT_EQ(history->ResolveRun(run_id_)->status, "interrupted");
  }
  for (const char* name : {"tiny", "latest"}) {
    CoordinatorOptions options = Options(name == std::string("tiny") ? 4 : 5);
    options.resume = name;
    const auto digests = RunTiny(options, TinyParts(4, 3), 6);
    ASSERT_OK(digests);
    for (const auto& [round, digest] : *digests) EXPECT_EQ(digest, reference->at(round)) << round;
  }
  auto history = *History::Open(folder_.db(), History::Access::kReadOnly);
  EXPECT_EQ(history->ResolveRun(run_id_)->status, "finished");
  EXPECT_EQ(history->Rounds(run_id_)->size(), 5u);
  EXPECT_EQ(history->ClientRounds(run_id_)->size(), 15u);
  EXPECT_THAT(history->ResolveRun(run_id_)->config, HasSubstr("rounds = 5"));
}

// After a restart everybody counts as present for a while; who was absent when the cohort was drawn is still not in it.
TEST_F(ResumeTest, CohortThatWasOut_IsAskedAgainWithoutThoseWhoWereAbsent) {
  CoordinatorOptions options = Options(3);
  options.scenario.server.presence_seconds = 100;
  options.scenario.server.lease_seconds = 10'000;
  std::atomic<int64_t> now = 1'738'333'530'123;
  options.now_ms = [&] { return now.load(); };
  const auto asked = [](Coordinator& coordinator, const std::vector<std::string>& names) {
    std::map<std::string, TaskId> tasks;
    for (const std::string& name : names) {
      const auto reply = coordinator.Poll(AskedBy(name));
      EXPECT_OK(reply);
      if (reply.ok() && !reply->tasks.empty()) tasks[name] = reply->tasks[0].id;
    }
    return tasks;
  };
  std::map<std::string, TaskId> before;
  {
    auto created = CreateCoordinator(options, TinyParts(4, 3));
    ASSERT_OK(created);
    Coordinator& coordinator = **created;
    ASSERT_OK(Join(coordinator, Names(6)));
    std::vector<std::string> present;  // two who have not been asked, and the last of those who have
    std::map<std::string, TaskId> first = asked(coordinator, Names(6));
    ASSERT_EQ(first.size(), 3u);
    for (const std::string& name : Names(6)) {
      if (!first.contains(name) && present.size() < 2) present.push_back(name);
    }
    const auto update = [](const TaskId&) { return MakeUpdate({1, 2, 3, 4}, 5); };
    for (auto task = first.begin(); task != std::prev(first.end()); ++task) {
      EXPECT_OK(Send(coordinator, task->first, task->second, update(task->second)));
    }
    present.push_back(first.rbegin()->first);
    now += 100'001;
    asked(coordinator, present);
    EXPECT_OK(Send(coordinator, present[2], first.at(present[2]), update(first.at(present[2]))));
    for (int i = 0; i < 10'000 && before.size() < 3; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      before = asked(coordinator, present);
      std::erase_if(
          before, [&](const auto& task) { return first.contains(task.first) && first.at(task.first) == task.second; });
    }
    ASSERT_EQ(before.size(), 3u);
    coordinator.Stop();
    EXPECT_THAT(coordinator.Wait(), StatusIs(absl::StatusCode::kCancelled));
  }
  options.resume = "latest";
  auto created = CreateCoordinator(options, TinyParts(4, 3));
  ASSERT_OK(created);
  EXPECT_EQ(asked(**created, Names(6)), before);
}

TEST_F(ResumeTest, Finished_DoesNothing) {
  CoordinatorOptions options = Options(2);
  const auto digests = RunTiny(options, TinyParts(4, 3), 6);
  ASSERT_OK(digests);
  options.resume = "latest";
  auto again = CreateCoordinator(options, TinyParts(4, 3));
  ASSERT_OK(again);
  EXPECT_TRUE((*again)->already_finished());
  EXPECT_OK((*again)->Wait());
  EXPECT_EQ((*again)->model()->ComputeDigest().Hex(), digests->at(2));
  again->reset();
  EXPECT_EQ((*History::Open(folder_.db(), History::Access::kReadOnly))->Rounds("")->size(), 0u);
  EXPECT_FALSE(std::filesystem::exists(folder_.db() + "-wal"));
}

TEST_F(ResumeTest, OtherConfiguration_IsRefusedNamingTheKey) {
  Interrupt();
  CoordinatorOptions options = Options(5);
  options.scenario.server.learning_rate = 0.5;
  EXPECT_EQ(
      ResumeError(options),
      fmt::format("run '{}' cannot be resumed so: server.learning_rate was 1.0 when the run began, and is 0.5 now. "
                  "It affects the run's results (its class is \"plan\"); only keys of the classes "
                  "\"operation\" and \"place\" may change: start a new run",
                  run_id_));
  options = Options(5);
  options.scenario.data.partition.clients = 7;
  EXPECT_THAT(ResumeError(options), HasSubstr("data.partition.clients was 6"));
}

TEST_F(ResumeTest, KeysOfOperationAndPlace_MayChange) {
  TestFolder reference_folder;
  CoordinatorOptions options = Options(7);
  options.db_path = reference_folder.db();
  const auto reference = RunTiny(options, TinyParts(4, 3), 6);
  ASSERT_OK(reference);
  Interrupt();
  options = Options(7);
  options.resume = run_id_;
  options.scenario.data.train = "/moved/train.tfrecord";
  options.scenario.server.deadline_seconds = 7;
  options.scenario.server.staging_megabytes = 1;
  options.scenario.server.max_attempts = 9;
  options.scenario.run.cache_megabytes = 1;
  options.scenario.run.keep_models = "all";
  options.scenario.run.durability = "second";
  const auto digests = RunTiny(options, TinyParts(4, 3), 6);
  ASSERT_OK(digests);
  EXPECT_EQ(*digests, *reference);
  const auto history = *History::Open(folder_.db(), History::Access::kReadOnly);
  EXPECT_THAT(history->ResolveRun(run_id_)->config, HasSubstr("deadline = 7.0"));
  std::vector<int64_t> named;
  for (const ModelRow& row : Value(history->Models(run_id_))) {
    if (!row.path.empty()) named.push_back(row.round);
  }
  EXPECT_EQ(named, (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7})) << "what came after it was kept";
}

TEST_F(ResumeTest, OtherPlan_IsRefused) {
  Interrupt();
  RunParts parts = TinyParts(4, 3);
  parts.plan = std::make_shared<const std::string>("another plan");
  parts.plan_digest = Sha256Of(*parts.plan);
  EXPECT_THAT(ResumeError(Options(5), parts), HasSubstr("resume it with the plan that it keeps"));
}

// Of a program that kept none, or the file was lost: the same configuration makes the same run.
TEST_F(ResumeTest, PlanNotKept_TheOneOfTodayIsKeptAndAnEventSaysSo) {
  Interrupt();
  const std::string file = folder_.db() + ".models/" + run_id_ + "/plan";
  EXPECT_EQ(*FileSystem::Default().ReadAll(file), "the plan");
  std::filesystem::remove(file);
  RunParts parts = TinyParts(4, 3);
  parts.plan = std::make_shared<const std::string>("the plan, as it is built today");
  parts.plan_digest = Sha256Of(*parts.plan);
  EXPECT_EQ(ResumeError(Options(5), parts), "resumed");
  EXPECT_EQ(*FileSystem::Default().ReadAll(file), *parts.plan);
  {
    const auto history = *History::Open(folder_.db(), History::Access::kReadOnly);
    EXPECT_EQ(history->ResolveRun(run_id_)->plan_digest, parts.plan_digest.Hex());
    bool said = false;
    for (const EventRow& event : Value(history->Events(run_id_))) {
      said |= event.message.find("was not kept; built again by this program it is") != event.message.npos;
    }
    EXPECT_TRUE(said);
  }
  EXPECT_EQ(ResumeError(Options(5), parts), "resumed");
}

TEST_F(ResumeTest, PlanDamaged_IsRefusedNamingTheFile) {
  Interrupt();
  const std::string file = folder_.db() + ".models/" + run_id_ + "/plan";
  ASSERT_OK(WriteFileAtomically(FileSystem::Default(), file, "the plam"));
  EXPECT_THAT(ResumeError(Options(5)),
              ::testing::AllOf(HasSubstr(file), HasSubstr("restore it from a copy, or remove")));
  EXPECT_THAT(PlanOfStoredRun(folder_.db(), run_id_), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(file)));
}

TEST_F(ResumeTest, PlanOfStoredRun_IsNullWhereNoneWasKept) {
  Interrupt();
  EXPECT_THAT(PlanOfStoredRun(folder_.db(), "latest"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("resume it with the program that started it")))
      << "the plan of these tests is no plan";
  std::filesystem::remove(folder_.db() + ".models/" + run_id_ + "/plan");
  const auto none = PlanOfStoredRun(folder_.db(), "latest");
  ASSERT_OK(none);
  EXPECT_EQ(*none, nullptr);
  EXPECT_THAT(PlanOfStoredRun(folder_.db(), "nobody"), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(ResumeTest, UnknownRun_IsRefused) {
  Interrupt();
  run_id_ = "nothing-like-it";
  EXPECT_THAT(ResumeError(Options(5)), HasSubstr("has no run with the id or name 'nothing-like-it'"));
}

TEST_F(ResumeTest, NoHistory_IsRefusedAndNoneIsMade) {
  run_id_ = "latest";
  EXPECT_THAT(ResumeError(Options(5)), HasSubstr("there is no history at"));
  EXPECT_FALSE(std::filesystem::exists(folder_.db()));
}

// Of two files that are kept, one is enough.
TEST_F(ResumeTest, NewestModelMissing_GoesOnFromTheOneBeforeToTheSameBits) {
  TestFolder reference_folder;
  CoordinatorOptions options = Options(5);
  options.db_path = reference_folder.db();
  const auto reference = RunTiny(options, TinyParts(4, 3), 6);
  ASSERT_OK(reference);
  Interrupt();
  std::filesystem::remove(ModelFile());
  options = Options(5);
  options.resume = run_id_;
  const auto digests = RunTiny(options, TinyParts(4, 3), 6);
  ASSERT_OK(digests);
  EXPECT_EQ(*digests, *reference);
  const auto history = *History::Open(folder_.db(), History::Access::kReadOnly);
  EXPECT_EQ(Value(history->ClientRounds(run_id_)).size(), 15u);
  bool said = false;
  for (const EventRow& event : Value(history->Events(run_id_))) {
    said |= event.message ==
            "the model of round 2 is missing; the run resumes from round 1 and makes the later rounds again";
  }
  EXPECT_TRUE(said);
}

TEST_F(ResumeTest, BothModelsMissing_IsRefused) {
  Interrupt();
  std::filesystem::remove(ModelFile());
  std::filesystem::remove(folder_.db() + ".models/" + run_id_ + "/round-000001.safetensors");
  EXPECT_THAT(ResumeError(Options(5)), HasSubstr("the model of round 2 of run"));
}

TEST_F(ResumeTest, ModelDiffers_IsRefused) {
  Interrupt();
  auto other = *TinyParts(4, 3).initial_model();
  ASSERT_OK(WriteFileAtomically(FileSystem::Default(), ModelFile(), ModelToSafetensors(*other, {})));
  EXPECT_THAT(ResumeError(Options(5)), HasSubstr("and the history has"));
}

TEST_F(ResumeTest, ModelDamaged_IsRefused) {
  Interrupt();
  std::string bytes = *FileSystem::Default().ReadAll(ModelFile());
  bytes[bytes.size() - 10] = static_cast<char>(bytes[bytes.size() - 10] ^ 1);
  ASSERT_OK(WriteFileAtomically(FileSystem::Default(), ModelFile(), bytes));
  EXPECT_THAT(ResumeError(Options(5)), HasSubstr("cannot be used"));
}

TEST_F(ResumeTest, OwnedByAnother_IsRefused) {
  CoordinatorOptions options = Options(5);
  auto owner = CreateCoordinator(options, TinyParts(4, 3));
  ASSERT_OK(owner);
  run_id_ = (*owner)->run_id();
  EXPECT_THAT(ResumeError(options), HasSubstr("belongs to another process that is still running"));
}

TEST_F(ResumeTest, UnnamedFiles_AreRemoved) {
  Interrupt();
  const std::string folder = folder_.db() + ".models/" + run_id_;
  for (const char* name : {"/round-000003.safetensors", "/round-000003.safetensors.tmp-0123456789abcdef"}) {
    ASSERT_OK(WriteFileAtomically(FileSystem::Default(), folder + name, "left by a crash"));
  }
  const std::vector<std::string> not_ours = {"/round-3.safetensors", "/round-000003.txt", "/round-best",
                                             "/round-000003.safetensors.tmp-backup", "/notes.tmp-0123456789abcdef"};
  for (const std::string& name : not_ours) {
    ASSERT_OK(WriteFileAtomically(FileSystem::Default(), folder + name, "somebody's"));
  }
  EXPECT_EQ(ResumeError(Options(5)), "resumed");
  for (const std::string& name : not_ours) EXPECT_TRUE(std::filesystem::remove(folder + name)) << name;
  EXPECT_EQ(*FileSystem::Default().List(folder),
            (std::vector<std::string>{"lock", "plan", "round-000001.safetensors", "round-000002.safetensors"}));
}

// A history by two names is one history: one lock, one folder of models.
TEST_F(ResumeTest, LinkedDatabase_IsTheSameRun) {
  const std::string link = folder_.File("link.sqlite");
  std::filesystem::create_symlink("runs.sqlite", link);
  CoordinatorOptions options = Options(5);
  options.db_path = link;
  {
    auto owner = CreateCoordinator(Options(5), TinyParts(4, 3));
    ASSERT_OK(owner);
    run_id_ = (*owner)->run_id();
    EXPECT_THAT(ResumeError(options), HasSubstr("belongs to another process that is still running"));
  }
  options.resume = run_id_;
  ASSERT_OK(RunTiny(options, TinyParts(4, 3), 6));
  EXPECT_FALSE(std::filesystem::exists(link + ".models"));
  EXPECT_EQ((*History::Open(folder_.db(), History::Access::kReadOnly))->ResolveRun(run_id_)->status, "finished");
}

// A copy is a run of its own from there on: it wants models of its own, and leaves those of the original alone.
TEST_F(ResumeTest, CopiedHistory_LeavesTheOriginalUntouched) {
  Interrupt();
  const std::string copy = folder_.File("copy.sqlite");
  std::filesystem::copy_file(folder_.db(), copy);
  CoordinatorOptions options = Options(5);
  options.db_path = copy;
  EXPECT_EQ(ResumeError(options),
            fmt::format("the models of run '{0}' are not at '{1}.models/{0}'; a history goes with the folder "
                        "'{1}.models' beside it: copy or rename that too",
                        run_id_, copy));
  EXPECT_FALSE(std::filesystem::exists(copy + ".models"));
  std::filesystem::copy(folder_.db() + ".models", copy + ".models", std::filesystem::copy_options::recursive);
  options.resume = run_id_;
  const auto of_copy = RunTiny(options, TinyParts(4, 3), 6);
  ASSERT_OK(of_copy);
  EXPECT_EQ(*FileSystem::Default().List(folder_.db() + ".models/" + run_id_),
            (std::vector<std::string>{"lock", "plan", "round-000001.safetensors", "round-000002.safetensors"}));
  EXPECT_EQ((*History::Open(copy, History::Access::kReadOnly))->Models(run_id_)->back().path,
            fmt::format("copy.sqlite.models/{}/round-000005.safetensors", run_id_));
  options.db_path = folder_.db();
  const auto of_original = RunTiny(options, TinyParts(4, 3), 6);
  ASSERT_OK(of_original);
  EXPECT_EQ(*of_copy, *of_original);
}

TEST_F(ResumeTest, EditedPaths_AreNeverFollowed) {
  Interrupt();
  const std::string victim = folder_.db() + ".models/round-000007.safetensors";
  std::filesystem::copy_file(ModelFile(), victim);  // the digest that the row names
  std::filesystem::rename(folder_.db() + ".models/" + run_id_ + "/round-000001.safetensors",
                          folder_.File("elsewhere.safetensors"));
  {
    auto db = Database::Open(folder_.db(), Database::Access::kReadWrite);
    ASSERT_OK(db);
    ASSERT_OK((*db)->Run("UPDATE model SET file = '../round-000007.safetensors' WHERE round = 2"));
    ASSERT_OK((*db)->Run("UPDATE model SET file = '../../elsewhere.safetensors' WHERE round = 1"));
  }
  CoordinatorOptions options = Options(5);
  options.resume = run_id_;
  ASSERT_OK(RunTiny(options, TinyParts(4, 3), 6));
  EXPECT_TRUE(std::filesystem::exists(victim));
  EXPECT_TRUE(std::filesystem::exists(folder_.File("elsewhere.safetensors")));
  {
    auto db = Database::Open(folder_.db(), Database::Access::kReadWrite);
    ASSERT_OK(db);
    ASSERT_OK((*db)->Run("UPDATE run SET run_id = '../run'"));
  }
  run_id_ = "../run";
  EXPECT_THAT(ResumeError(Options(6)), HasSubstr("is damaged: '../run' is no id of a run"));
}

// A run in a process of its own that dies in its seventh round, once some rounds are written or a second has passed.
void DieInRoundSeven(CoordinatorOptions options) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    FakeFleet fleet(options);
    auto created = CreateCoordinator(options, TinyParts(4, 3));
    if (!created.ok()) _exit(1);
    fleet.act = [&](Coordinator& c, const std::string& client_id, const Task& task) {
      if (task.base_version == 6) {
        for (int i = 0; i < 100; ++i) {
          const auto reader = *History::Open(options.db_path, History::Access::kReadOnly);
          if (reader->FindResumePoint(c.run_id())->committed_round >= 6) break;
          std::this_thread::sleep_for(std::chrono::milliseconds(15));
        }
        _exit(0);
      }
      FakeFleet::Work(c, client_id, task).IgnoreError();
    };
    fleet.Run(**created, Names(6)).IgnoreError();
    _exit(2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
}

// The process dies and its log is lost, or somebody copied the file without it: what the file says stands some versions
// back, and that version's model is there, however quickly others followed. A file that was being written from the log
// at that moment is a mixture of two states, and is told to be damaged; the next death will be another.
TEST_F(ResumeTest, LostLog_GoesOnToTheSameBits) {
  constexpr int kDeaths = 5;
  TestFolder reference_folder;
  CoordinatorOptions reference_options = Options(8);
  reference_options.db_path = reference_folder.db();
  const auto reference = RunTiny(reference_options, TinyParts(4, 3), 6);
  ASSERT_OK(reference);
  for (const char* durability : {"round", "second", "end"}) {
    SCOPED_TRACE(durability);
    for (int death = 1; death <= kDeaths; ++death) {
      TestFolder folder;
      CoordinatorOptions options = Options(8);
      options.db_path = folder.db();
      options.scenario.run.durability = durability;
      // A database that holds nothing of the run would leave nothing to resume.
      ASSERT_OK((*History::Open(folder.db(), History::Access::kReadWrite))->Close());
      ASSERT_NO_FATAL_FAILURE(DieInRoundSeven(options));
      ASSERT_TRUE(std::filesystem::remove(folder.db() + "-wal"));
      std::filesystem::remove(folder.db() + "-shm");
      options.resume = "latest";
      const bool known = (*History::Open(folder.db(), History::Access::kReadOnly))->ResolveRun("latest").ok();
      EXPECT_EQ(known, durability != std::string("end")) << "nothing of it was written";
      if (!known) break;
      const auto digests = RunTiny(options, TinyParts(4, 3), 6);
      if (absl::IsDataLoss(digests.status()) && death < kDeaths) continue;
      ASSERT_OK(digests);
      EXPECT_EQ(*digests, *reference);
      break;
    }
  }
}

TEST_F(ResumeTest, CutOffInAnAttempt_RunsTheSameAttemptWithTheSameTasks) {
  CoordinatorOptions options = Options(5);
  options.scenario.data.partition.clients = 7;  // one of them comes late
  options.scenario.server.min_clients = 6;
  FakeFleet fleet(options);
  std::vector<TaskId> tasks;
  {
    auto created = CreateCoordinator(options, TinyParts(4, 3));
    fleet.act = [&](Coordinator& c, const std::string&, const Task& task) {
      tasks.push_back(task.id);
      // A name that comes in the middle is a candidate later, not when this attempt is run again.
      if (tasks.size() == 1) {
        EXPECT_OK(c.Poll(AskedBy("client-99999")));
      }
      if (tasks.size() == 3) c.Stop();
    };
    EXPECT_THAT(fleet.Run(**created, Names(6)), StatusIs(absl::StatusCode::kCancelled));
  }
  options.resume = "latest";
  FakeFleet second(options);
  std::vector<TaskId> again;
  auto created = CreateCoordinator(options, TinyParts(4, 3));
  ASSERT_OK(created);
  second.act = [&](Coordinator& c, const std::string&, const Task& task) {
    again.push_back(task.id);
    if (again.size() == 3) c.Stop();
  };
  EXPECT_THAT(second.Run(**created, Names(6)), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(again, tasks);
}

// A version that was ready and not yet written dies with its process, and the next one makes it again, perhaps of
// others. What was trained from the lost one must not get into the version after it, although its task's name is the
// same.
TEST_F(ResumeTest, TaskOfAVersionThatDiedWithItsProcess_IsTakenOnlyOnceItIsGivenAgain) {
  CoordinatorOptions options = Options(3);
  options.scenario.run.durability = "end";
  InstallFaultySqlite([](const std::string&) { return true; });  // before the history is opened
  std::vector<Task> lost;
  {
    CoordinatorOptions first = options;
    FakeFleet fleet(first);
    auto created = CreateCoordinator(first, TinyParts(4, 3));
    ASSERT_OK(created);
    run_id_ = (*created)->run_id();
    fleet.act = [&](Coordinator& c, const std::string& client_id, const Task& task) {
      if (task.base_version == 0) return (void)FakeFleet::Work(c, client_id, task);
      lost.push_back(task);
      if (lost.size() < 2) return;
      InstallFaultySqlite([](const std::string&) { return false; });
      c.Stop();
    };
    EXPECT_FALSE(fleet.Run(**created, Names(6)).ok());
  }
  InstallFaultySqlite([](const std::string&) { return true; });
  ASSERT_EQ(lost.size(), 2u);
  options.resume = run_id_;
  FakeFleet fleet(options);
  auto created = CreateCoordinator(options, TinyParts(4, 3));
  ASSERT_OK(created);
  std::set<TaskId> given;
  bool sent = false;
  fleet.act = [&](Coordinator& c, const std::string& client_id, const Task& task) {
    given.insert(task.id);
    if (task.base_version == 1 && !std::exchange(sent, true)) {
      const Task& stale = lost[0].client_id == client_id ? lost[1] : lost[0];
      EXPECT_THAT(Send(c, stale.client_id, stale.id, MakeUpdate({1, 1, 1, 1}, 10)),
                  StatusIs(absl::StatusCode::kNotFound, HasSubstr("starts from a version that was made again")));
      EXPECT_THAT(c.Fail(As(stale.client_id), {.task = stale.id}), StatusIs(absl::StatusCode::kNotFound));
    }
    EXPECT_OK(FakeFleet::Work(c, client_id, task));
  };
  ASSERT_OK(fleet.Run(**created, Names(6)));
  EXPECT_TRUE(sent);
  for (const Task& task : lost) EXPECT_TRUE(given.contains(task.id)) << task.id;
}

// A transaction takes long, and a client whose last task is looked up waits for it; nobody else does.
TEST_F(ResumeTest, HistoryTakesLong_OtherPollsGoOn) {
  CoordinatorOptions options = Options(5);
  options.scenario.data.partition.clients = 7;  // room for one that comes late
  options.scenario.server.min_clients = 6;
  Interrupt(options);
  options.resume = run_id_;
  std::atomic<bool> slow = false;
  std::binary_semaphore writing(0), go_on(0);
  InstallFaultySqlite([&](const std::string&) {
    if (slow.exchange(false)) {
      writing.release();
      go_on.acquire();
    }
    return true;
  });
  auto created = CreateCoordinator(options, TinyParts(4, 3));
  ASSERT_OK(created);
  Coordinator& coordinator = **created;
  EXPECT_OK(coordinator.Poll(AskedBy("client-00000")));
  slow = true;
  std::thread joins([&] { EXPECT_OK(coordinator.Poll(AskedBy("client-99999"))); });
  writing.acquire();
  std::atomic<bool> answered = false;
  std::thread looked_up([&] {
    EXPECT_OK(coordinator.Poll(AskedBy("client-00001")));
    answered = true;
  });
  for (int i = 0; i < 20; ++i) {
    EXPECT_OK(coordinator.Poll(AskedBy("client-00000")));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_FALSE(answered);
  go_on.release();
  joins.join();
  looked_up.join();
  EXPECT_TRUE(answered);
  InstallFaultySqlite(nullptr);
}

TEST_F(ResumeTest, UpdateSentAgainAfterItsRoundWasCommitted_IsADuplicate) {
  CoordinatorOptions options = Options(5);
  FakeFleet fleet(options);
  std::string client, update;
  TaskId sent;
  {
    auto created = CreateCoordinator(options, TinyParts(4, 3));
    fleet.act = [&](Coordinator& c, const std::string& client_id, const Task& task) {
      if (task.base_version == 2) return c.Stop();
      client = client_id;
      sent = task.id;
      EXPECT_OK(FakeFleet::Work(c, client_id, task));
    };
    fleet.Run(**created, Names(6)).IgnoreError();
  }
  options.resume = "latest";
  auto created = CreateCoordinator(options, TinyParts(4, 3));
  ASSERT_OK(created);
  const auto result = Send(**created, client, sent, "the answer was lost");
  ASSERT_OK(result);
  EXPECT_EQ(result->kind, SubmitResult::Kind::kDuplicate);
  const auto reply = (*created)->Poll(AskedBy(client));
  ASSERT_OK(reply);
  ASSERT_EQ(reply->outcomes.size(), 1);
  EXPECT_EQ(reply->outcomes[0].task, sent);
  EXPECT_EQ(reply->outcomes[0].end, TaskEnd::kFolded);
}

}  // namespace
}  // namespace rivulet
