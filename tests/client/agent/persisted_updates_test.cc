#include "client/agent/persisted_updates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "client/training/task_work.h"
#include "engine/io/sealed_file.h"
#include "tests/testing/forwarding_file_system.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kRun[] = "heart-r1-20260101";  // looks like the beginning of a task

Task TaskOf(int64_t round, const std::string& client = "site-1", const std::string& run = kRun) {
  Task task;
  task.id = TaskIdOf(run, {TaskKind::kTrain, round, 1, client, 0});
  task.run_id = run;
  task.client_id = client;
  task.base_version = round - 1;
  task.plan = Sha256Of("plan");
  task.inputs = {{"model", {BlobId::Form::kModel, Sha256Of(fmt::format("model {}", round - 1))}}};
  return task;
}

FinishedWork WorkFor(int64_t round) {
  FinishedWork work;
  work.update = std::string(100, static_cast<char>('a' + round));
  work.examples = 25;
  work.steps = 6;
  work.train_loss = 0.5;
  work.train_seconds = 1.25;
  work.update_norm = 2.5;
  work.lanes = 3;
  work.tf32 = true;
  return work;
}

class PersistedUpdatesTest : public testing::FolderTest {
 protected:
  // As the next process would have it.
  PersistedUpdates Open(int64_t max_bytes = 1'000'000, FileSystem& fs = FileSystem::Default()) {
    return PersistedUpdates(fs, Path("updates"), "site-1",
                            {max_bytes, [this](const std::string& sentence) { said_.push_back(sentence); }});
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    if (!std::filesystem::exists(Path("updates"))) return files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(Path("updates"))) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    std::ranges::sort(files);
    return files;
  }
  std::vector<std::string> said_;
};

TEST_F(PersistedUpdatesTest, NextProcess_FindsWhatWasKept) {
  Open().Keep(TaskOf(1), WorkFor(1));
  const auto found = Open().Find(TaskOf(1));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->update, WorkFor(1).update);
  EXPECT_EQ(found->result(), WorkFor(1).result());
  EXPECT_FALSE(Open().Find(TaskOf(2)));
  EXPECT_FALSE(Open().Find(TaskOf(1, "site-2")));
  EXPECT_FALSE(Open().Find(TaskOf(1, "site-1", "another")));
  EXPECT_THAT(said_, IsEmpty());
}

TEST_F(PersistedUpdatesTest, FileOfVersion01_IsFound) {
  const Digest work = WorkOf(TaskOf(1));
  const auto found = [&](int64_t steps, double loss, double seconds) {
    Open().Keep(TaskOf(1), WorkFor(1));
    std::string numbers(32, '\0');
    const int64_t examples = 25;
    std::memcpy(numbers.data(), &examples, 8);
    std::memcpy(numbers.data() + 8, &steps, 8);
    std::memcpy(numbers.data() + 16, &loss, 8);
    std::memcpy(numbers.data() + 24, &seconds, 8);
    EXPECT_OK(WriteSealedFile(FileSystem::Default(), Files()[0], {"RVHELD01", work.AsBytes(), numbers, "an update"}));
    return Open().Find(TaskOf(1));
  };
  const auto all = found(6, 0.5, 1.25), few = found(-1, std::nan(""), 0);
  ASSERT_TRUE(all && few);
  EXPECT_EQ(all->update, "an update");
  EXPECT_EQ(all->result(), (TaskResult{.examples = 25, .steps = 6, .train_loss = 0.5, .train_seconds = 1.25}));
  EXPECT_EQ(few->result(), TaskResult{.examples = 25});
  EXPECT_THAT(said_, IsEmpty());
}

TEST_F(PersistedUpdatesTest, FilesAreTheOwnersAlone) {
  Open().Keep(TaskOf(1), WorkFor(1));
  ASSERT_EQ(Files().size(), 1u);
  using std::filesystem::perms;
  EXPECT_EQ(std::filesystem::status(Files()[0]).permissions(), perms::owner_read | perms::owner_write);
  EXPECT_EQ(std::filesystem::status(FolderOf(Files()[0])).permissions(), perms::owner_all);
}

// The coordinator that died may have made its version again, of others: under the same name stands other work.
TEST_F(PersistedUpdatesTest, SameNameFromAnotherModel_IsDroppedWithASentence) {
  Open().Keep(TaskOf(1), WorkFor(1));
  Task other = TaskOf(1);
  other.inputs[0].id.digest = Sha256Of("made again");
  EXPECT_FALSE(Open().Find(other));
  EXPECT_THAT(said_, ElementsAre("the finished update of round 1 is dropped: the task is another by now, from another "
                                 "model"));
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(PersistedUpdatesTest, WorkOf_IsAnotherWithWhateverTrainingDependsOn) {
  const Task task = TaskOf(3);
  std::vector<Task> others(9, task);
  others[0].stream_key = 7;
  others[1].ordinal = 1;
  others[2].base_version = 5;
  others[3].plan = Sha256Of("another plan");
  others[4].state_of = "a task";
  others[5].inputs.push_back({"broadcast/c", {BlobId::Form::kBytes, {}}});
  others[6].kind = TaskKind::kEvaluate;
  others[7].inputs[0].id.form = BlobId::Form::kBytes;
  others[8].numbers["mu"] = 0.1;
  for (const Task& other : others) EXPECT_NE(WorkOf(other), WorkOf(task));
  EXPECT_EQ(WorkOf(task), WorkOf(TaskOf(3)));
}

TEST_F(PersistedUpdatesTest, DamagedOrCut_IsDroppedWithASentence) {
  Open().Keep(TaskOf(1), WorkFor(1));
  const std::string path = Files()[0], whole = testing::ContentOf(path);
  for (const size_t at : {size_t{0}, size_t{20}, whole.size() / 2, whole.size() - 1}) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    for (const std::string& bytes : {damaged, whole.substr(0, at)}) {
      Write(path.substr(folder_.path().size() + 1), bytes);
      said_.clear();
      EXPECT_FALSE(Open().Find(TaskOf(1)));
      EXPECT_THAT(said_, ElementsAre(HasSubstr("the finished update of round 1 is dropped: ")));
      EXPECT_THAT(Files(), IsEmpty());
    }
  }
}

TEST_F(PersistedUpdatesTest, DurableOutcome_RemovesItsRoundAndEarlierOnesOfItsRunAlone) {
  PersistedUpdates held = Open();
  for (const int64_t round : {1, 2, 3}) held.Keep(TaskOf(round), WorkFor(round));
  held.Keep(TaskOf(1, "site-1", "another"), WorkFor(1));
  held.Settle({TaskOf(2).id, TaskEnd::kFolded, "", false});
  EXPECT_EQ(Files().size(), 4u);
  held.Settle({TaskOf(2).id, TaskEnd::kFolded, "", true});
  EXPECT_FALSE(held.Find(TaskOf(1)));
  EXPECT_FALSE(held.Find(TaskOf(2)));
  EXPECT_TRUE(held.Find(TaskOf(3)));
  held.RunIsOver(kRun);
  EXPECT_FALSE(held.Find(TaskOf(3)));
  EXPECT_TRUE(held.Find(TaskOf(1, "site-1", "another")));
  EXPECT_THAT(said_, IsEmpty());
}

TEST_F(PersistedUpdatesTest, TaskThatIsDead_IsDroppedWithOneLine) {
  PersistedUpdates held = Open();
  held.Keep(TaskOf(1), WorkFor(1));
  for (int poll = 0; poll < 3; ++poll) held.Settle({TaskOf(1).id, TaskEnd::kDropped, "its round was closed", false});
  EXPECT_THAT(said_, ElementsAre("the finished update of round 1 is dropped: its round was closed"));
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(PersistedUpdatesTest, MoreThanAllowed_CostsTheOldestAndIsSaid) {
  PersistedUpdates held = Open(450);
  for (const int64_t round : {1, 2, 3}) held.Keep(TaskOf(round), WorkFor(round));
  EXPECT_FALSE(held.Find(TaskOf(1)));
  EXPECT_TRUE(held.Find(TaskOf(2)));
  EXPECT_TRUE(held.Find(TaskOf(3)));
  EXPECT_THAT(said_, ElementsAre(HasSubstr("the oldest is dropped, which is in no durable version yet")));
  said_.clear();
  FinishedWork large = WorkFor(4);
  large.update.resize(1000);
  held.Keep(TaskOf(4), large);
  held.Keep(TaskOf(5), large);
  EXPECT_THAT(said_, ElementsAre(HasSubstr("round 4 is not kept on disk: it has 0.0 MB, and --hold-megabytes allows")));
  EXPECT_TRUE(held.Find(TaskOf(3)));
}

class FullFileSystem : public testing::ForwardingFileSystem {
 public:
  StatusOr<std::unique_ptr<WritableFile>> Create(const std::string&) override {
    return absl::ResourceExhaustedError("no space left on the device");
  }
};

TEST_F(PersistedUpdatesTest, FullDisk_IsSaidOnceAndHarmsNothing) {
  FullFileSystem full;
  PersistedUpdates held = Open(1'000'000, full);
  held.Keep(TaskOf(1), WorkFor(1));
  held.Keep(TaskOf(2), WorkFor(2));
  EXPECT_THAT(said_, ElementsAre(HasSubstr("round 1 is not kept on disk: no space left on the device; it is sent from "
                                           "memory")));
  EXPECT_FALSE(held.Find(TaskOf(1)));
}

TEST_F(PersistedUpdatesTest, HalfWrittenFileOfADeadProcess_GoesWithTheNext) {
  Open().Keep(TaskOf(1), WorkFor(1));
  const std::string half = Files()[0] + ".tmp-0123456789abcdef";
  Write(half.substr(folder_.path().size() + 1), "half");
  const std::vector<std::string> somebodys = {"notes.tmp-old", "notes.tmp-0123456789abcdef"};
  for (const std::string& name : somebodys) Write(folder_.Relative(FolderOf(half)) + "/" + name, "somebody's");
  Open();
  EXPECT_EQ(Files().size(), 1u + somebodys.size());
  EXPECT_FALSE(std::filesystem::exists(half));
  // Where there is no room for two, the older update goes, and not what is older still and nobody's here.
  Open(std::ssize(WorkFor(2).update) + 10).Keep(TaskOf(2), WorkFor(2));
  EXPECT_EQ(Files().size(), 1u + somebodys.size());
  EXPECT_TRUE(Open().Has(TaskOf(2).id));
}

// As an aggregator does for its clients, several threads at once.
TEST_F(PersistedUpdatesTest, SentUpdatesOfManyClients_AreKeptApartAndGoWithTheirRun) {
  const std::string folder = Path("updates");
  const auto of = [&](const std::string& client) {
    PersistedUpdates::Options options;
    options.shared = true;
    return PersistedUpdates(FileSystem::Default(), folder, client, options);
  };
  for (const std::string client : {"site-1", "site-2"}) {
    ASSERT_OK(of(client).KeepSent(TaskOf(1, client), "update of " + client, {.train_seconds = 1.5}));
  }
  ASSERT_OK(of("site-1").KeepSent(TaskOf(1, "site-1", "another"), "of another run", {}));
  const std::string half = Files()[0] + ".tmp-0123456789abcdef";
  Write(half.substr(folder_.path().size() + 1), "half");
  EXPECT_TRUE(of("site-2").Has(TaskOf(1, "site-2").id));
  EXPECT_FALSE(of("site-2").Has(TaskOf(2, "site-2").id));
  EXPECT_EQ(of("site-2").Find(TaskOf(1, "site-2"))->update, "update of site-2");
  EXPECT_EQ(of("site-2").Find(TaskOf(1, "site-2"))->train_seconds, 1.5);
  EXPECT_EQ(Files().size(), 4u) << "what another thread writes stays";
  PersistedUpdates::RemoveHalfWritten(FileSystem::Default(), folder);
  EXPECT_EQ(Files().size(), 3u);
  PersistedUpdates::RunIsOver(FileSystem::Default(), folder, kRun);
  EXPECT_EQ(Files().size(), 1u);
  EXPECT_TRUE(of("site-1").Has(TaskOf(1, "site-1", "another").id));
}

TEST_F(PersistedUpdatesTest, SentUpdateThatCannotBeKept_IsAnError) {
  FullFileSystem full;
  EXPECT_EQ(Open(1'000'000, full).KeepSent(TaskOf(1), "update", {}).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Open().KeepSent(TaskOf(1, "site-2"), "update", {}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Files(), IsEmpty());
}

class SyncCountingFileSystem : public testing::ForwardingFileSystem {
 public:
  Status SyncFolder(const std::string& folder) override {
    ++syncs;
    return base_.SyncFolder(folder);
  }
  int syncs = 0;
};

TEST_F(PersistedUpdatesTest, WorkThatIsSoonDoneAgain_IsNotWaitedForOnTheDisk) {
  SyncCountingFileSystem counting;
  PersistedUpdates held = Open(1'000'000, counting);
  FinishedWork work = WorkFor(1);
  held.Keep(TaskOf(1), work);  // with its folder
  counting.syncs = 0;
  work.train_seconds = 0.05;
  held.Keep(TaskOf(1), work, true);
  EXPECT_EQ(counting.syncs, 0);
  EXPECT_EQ(Open().Find(TaskOf(1))->update, work.update) << "the next process has it";
  held.Keep(TaskOf(2), work, false);
  EXPECT_EQ(counting.syncs, 1) << "another draw of noise is another update";
  work.train_seconds = 0.1;
  held.Keep(TaskOf(3), work, true);
  EXPECT_EQ(counting.syncs, 2);
}

// A name that is no task of this client's is no path either.
TEST_F(PersistedUpdatesTest, ForeignNames_TouchNothing) {
  PersistedUpdates held = Open();
  Task task = TaskOf(1);
  for (const char* id : {"", "../../x", "-r", "run-r1-a1-site-2-0", "run-e1-a1-site-1-0"}) {
    task.id = id;
    held.Keep(task, WorkFor(1));
    EXPECT_FALSE(held.Find(task));
    held.Settle({id, TaskEnd::kFolded, "", true});
  }
  EXPECT_THAT(Files(), IsEmpty());
}

}  // namespace
}  // namespace rivulet
