#include "coordinator/intake/report_store.h"

#include <filesystem>

#include "engine/io/sealed_file.h"
#include "federated/updates/task_records.h"
#include "tests/testing/record_of.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ReportStoreTest : public testing::FolderTest {
 protected:
  ReportStoreTest() : FolderTest(testing::TempFolder::Place::kMemory) {}
  ReportStore Open() { return ReportStore(fs_, Path("run")); }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    if (!std::filesystem::exists(Path("run/reports"))) return names;
    for (const auto& entry : std::filesystem::directory_iterator(Path("run/reports"))) {
      names.push_back(entry.path().filename());
    }
    return names;
  }
  // As a site sends a partial: the records of its tasks, then what a store does not look into.
  static std::string PartialOf(const std::vector<TaskId>& tasks) {
    std::vector<TaskRecord> records;
    for (const TaskId& task : tasks) records.push_back(RecordOf(task, {{"examples", 1}}));
    return WriteTaskRecords(records) + "sums";
  }

  FileSystem& fs_ = FileSystem::Default();
  const Digest base_ = Sha256Of("model");
};

TEST_F(ReportStoreTest, Report_IsReadAsItWasKept) {
  ReportStore store = Open();
  EXPECT_THAT(store.Read("task"), StatusIs(absl::StatusCode::kNotFound));
  const TaskResult measured = {.update_norm = 2.5, .train_seconds = 1.5, .fold_seconds = 0.5, .lanes = 3, .tf32 = true};
  ASSERT_OK(store.Keep("task", base_, measured, "an update"));
  ASSERT_OK_AND_ASSIGN(const KeptReport report, store.Read("task"));
  EXPECT_EQ(report.base, base_);
  EXPECT_EQ(report.measured, measured);
  EXPECT_EQ(report.update, "an update");
  ASSERT_OK(store.Keep("empty", base_, {}, ""));
  EXPECT_EQ(store.Read("empty")->update, "");
  store.Remove("task");
  EXPECT_THAT(store.Read("task"), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(ReportStoreTest, ReportOfVersion01_IsRead) {
  ReportStore store = Open();
  ASSERT_OK(store.Keep("task", base_, {}, ""));
  const std::string path = Path("run/reports/") + Files()[0];
  const double seconds = 1.5;
  const std::string bytes(reinterpret_cast<const char*>(&seconds), sizeof(seconds));
  ASSERT_OK(WriteSealedFile(fs_, path, {"RVREPT01", base_.AsBytes(), bytes, "an update"}));
  ASSERT_OK_AND_ASSIGN(const KeptReport report, store.Read("task"));
  EXPECT_EQ(report.base, base_);
  EXPECT_EQ(report.measured, TaskResult{.train_seconds = 1.5});
  EXPECT_EQ(report.update, "an update");
  for (const std::string& cut :
       {std::string("RVREPT01") + std::string(39, 'x'), std::string("RVREPT02") + std::string(35, 'x'),
        std::string("RVREPT02") + std::string(32, 'x') + std::string("\1\0\0\0", 4)}) {
    ASSERT_OK(WriteSealedFile(fs_, path, {cut}));
    EXPECT_THAT(store.Read("task"), StatusIs(absl::StatusCode::kDataLoss)) << cut.size();
  }
}

TEST_F(ReportStoreTest, Partial_IsReadAsItWasKept) {
  ReportStore store = Open();
  const std::vector<TaskId> tasks = {"t1", "t0"};
  ASSERT_OK_AND_ASSIGN(const KeptPartial kept, store.KeepPartial("site 7", tasks, base_, PartialOf(tasks)));
  EXPECT_EQ(kept.site, "site 7");
  EXPECT_THAT(kept.tasks, ElementsAre("t0", "t1"));
  ASSERT_OK_AND_ASSIGN(const KeptReport report, store.Read(kept));
  EXPECT_EQ(report.base, base_);
  EXPECT_EQ(report.measured, TaskResult());
  EXPECT_EQ(report.update, PartialOf(tasks));
  store.Remove("t1");
  EXPECT_THAT(Files(), IsEmpty()) << "a partial goes with any of its tasks";
}

// A file whose CRC is right may still be another's, or lie about a length.
TEST_F(ReportStoreTest, FileOfAnotherKind_IsDataLoss) {
  ReportStore store = Open();
  ASSERT_OK_AND_ASSIGN(const KeptPartial kept, store.KeepPartial("s", {}, base_, ""));
  const auto partial = [&](std::string_view bytes) {
    EXPECT_OK(WriteSealedFile(fs_, kept.path, {bytes}));
    return store.Read(kept);
  };
  const std::string head = "RVPART01" + std::string(40, '\0');
  EXPECT_OK(partial(head + std::string("\2\0\0\0of", 6)));
  EXPECT_THAT(partial(head + std::string("\3\0\0\0of", 6)),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("ends in the name of its site")));
  EXPECT_THAT(partial(head + std::string("\xff\xff\xff\xff", 4)), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(partial(head + std::string(3, '\0')), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(partial(head.substr(1)), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("no report of this program")));
  EXPECT_THAT(partial("RVREPT01" + head.substr(8)), StatusIs(absl::StatusCode::kDataLoss));

  ASSERT_OK(store.Keep("task", base_, {}, "u"));
  const std::string path = Path("run/reports/" + Sha256Of("task").Hex().substr(0, 32) + ".report");
  ASSERT_OK(WriteSealedFile(fs_, path, {head}));
  EXPECT_THAT(store.Read("task"), StatusIs(absl::StatusCode::kDataLoss));
  ASSERT_OK(WriteSealedFile(fs_, path, {"RVREPT01"}));
  EXPECT_THAT(store.Read("task"), StatusIs(absl::StatusCode::kDataLoss));
  ASSERT_OK(WriteSealedFile(fs_, path, {"RVREPT01" + head.substr(8)}));
  EXPECT_OK(store.Read("task"));
}

TEST_F(ReportStoreTest, WhatAProcessLeft_IsTakenOnce) {
  ASSERT_OK(Open().Keep("a", base_, {}, "u"));
  ASSERT_OK(Open().Keep("b", base_, {}, "u"));
  ReportStore store = Open();
  ASSERT_OK(store.Keep("c", base_, {}, "u"));
  EXPECT_TRUE(store.TakeLeft("a"));
  EXPECT_FALSE(store.TakeLeft("a"));
  EXPECT_FALSE(store.TakeLeft("c")) << "its own";
  store.RemoveLeft();
  EXPECT_OK(store.Read("a"));
  EXPECT_THAT(store.Read("b"), StatusIs(absl::StatusCode::kNotFound)) << "nobody asked for it";
  EXPECT_OK(store.Read("c"));
}

// Tasks of one partial are in it or not, all of them: it counts when each has been asked for.
TEST_F(ReportStoreTest, PartialThatWasLeft_IsTakenWithTheLastOfItsTasks) {
  const std::vector<TaskId> both = {"t0", "t1"}, third = {"t2"};
  ASSERT_OK(Open().KeepPartial("s", both, base_, PartialOf(both)));
  ASSERT_OK(Open().KeepPartial("s", third, base_, PartialOf(third)));
  ReportStore store = Open();
  EXPECT_EQ(store.TakeLeftPartial("t0"), std::nullopt) << "nobody knows yet what is in them";
  EXPECT_THAT(store.FindPartials(), IsEmpty());
  EXPECT_EQ(store.TakeLeftPartial("nobody's"), std::nullopt);
  EXPECT_EQ(store.TakeLeftPartial("t0"), std::nullopt);
  EXPECT_EQ(store.TakeLeftPartial("t0"), std::nullopt) << "t1 was not asked for";
  const auto taken = store.TakeLeftPartial("t1");
  ASSERT_TRUE(taken.has_value());
  EXPECT_EQ(taken->site, "s");
  EXPECT_THAT(taken->tasks, ElementsAre("t0", "t1"));
  EXPECT_EQ(store.Read(*taken)->update, PartialOf(both));
  EXPECT_EQ(store.TakeLeftPartial("t1"), std::nullopt);
  store.RemoveLeft();
  EXPECT_OK(store.Read(*taken));
  EXPECT_EQ(Files().size(), 1) << "the other was not asked for";
  EXPECT_EQ(store.TakeLeftPartial("t2"), std::nullopt);
}

TEST_F(ReportStoreTest, PartialThatIsDamaged_IsToldAndGoes) {
  const std::vector<TaskId> tasks = {"t0"};
  ASSERT_OK_AND_ASSIGN(const KeptPartial kept, Open().KeepPartial("s", tasks, base_, PartialOf(tasks)));
  Write(std::filesystem::relative(kept.path, Path("")).string(), "RVPART01 cut");
  ReportStore store = Open();
  EXPECT_THAT(store.FindPartials(), ElementsAre(HasSubstr(kept.path)));
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_EQ(store.TakeLeftPartial("t0"), std::nullopt);
}

TEST_F(ReportStoreTest, RemoveAll_LeavesWhatIsAnothers) {
  ReportStore::RemoveAll(fs_, Path("run"));  // nothing was kept
  const std::vector<TaskId> tasks = {"t0"};
  ASSERT_OK(Open().Keep("a", base_, {}, "u"));
  ASSERT_OK(Open().KeepPartial("s", tasks, base_, PartialOf(tasks)));
  Write("run/reports/notes.txt", "a note");
  ReportStore::RemoveAll(fs_, Path("run"));
  EXPECT_THAT(Files(), ElementsAre("notes.txt"));
  std::filesystem::remove(Path("run/reports/notes.txt"));
  ReportStore::RemoveAll(fs_, Path("run"));
  EXPECT_FALSE(std::filesystem::exists(Path("run/reports")));
}

}  // namespace
}  // namespace rivulet
