#include "coordinator/intake/intake.h"

#include <limits.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <thread>

#include "coordinator/intake/round_accumulator.h"
#include "engine/io/crc32c.h"
#include "test_run.h"
#include "tests/testing/replaced_descriptor.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;

std::span<const std::byte> Bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }
std::string Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(StagingTest, Reserve_WithinTheBudget_StaysInMemory) {
  TestFolder folder;
  Staging staging(folder.path(), 8192);
  auto staged = *staging.Reserve(5000);
  EXPECT_EQ(staging.memory_in_use(), 8192);
  ASSERT_OK(staged->Append(Bytes("many ")));
  ASSERT_OK(staged->Append(Bytes("streams")));
  EXPECT_EQ(Text(*staged->View()), "many streams");
  EXPECT_EQ(staging.spilled(), 0);
  staged.reset();
  EXPECT_EQ(staging.memory_in_use(), 0);
}

TEST(StagingTest, Reserve_BeyondTheBudget_SpillsToAFileWithoutAName) {
  TestFolder folder;
  Staging staging(folder.path(), 4096);
  auto memory = *staging.Reserve(4096);
  auto spooled = *staging.Reserve(4096);
  EXPECT_EQ(staging.spilled(), 1);
  EXPECT_EQ(staging.memory_in_use(), 4096);
  EXPECT_TRUE(spooled->View()->empty());
  ASSERT_OK(spooled->Append(Bytes("one ")));
  EXPECT_EQ(Text(*spooled->View()), "one ");
  ASSERT_OK(spooled->Append(Bytes("river")));
  EXPECT_EQ(Text(*spooled->View()), "one river");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(StagingTest, Reserve_NoBudget_AllSpill) {
  TestFolder folder;
  Staging staging(folder.path(), 0);
  auto staged = *staging.Reserve(1);
  EXPECT_EQ(staging.spilled(), 1);
}

TEST(StagingTest, Reserve_OtherSizeThanKept_MakesRoom) {
  TestFolder folder;
  Staging staging(folder.path(), 16384);
  staging.Reserve(16384)->reset();
  auto small = *staging.Reserve(100);
  auto medium = *staging.Reserve(8192);
  EXPECT_EQ(staging.spilled(), 0);
  EXPECT_EQ(staging.memory_in_use(), 4096 + 8192);
}

TEST(StagingTest, Reserve_BufferOfTwiceTheSizeIsKept_IsTaken) {
  TestFolder folder;
  Staging staging(folder.path(), 16384);
  staging.Reserve(8192)->reset();
  const auto staged = *staging.Reserve(4096);
  EXPECT_EQ(staging.memory_in_use(), 8192);
}

// What is taken is kept no longer, and holds nobody's room.
TEST(StagingTest, Reserve_AfterABufferWasTaken_FillsTheBudget) {
  TestFolder folder;
  Staging staging(folder.path(), 8192);
  staging.Reserve(4096)->reset();
  const auto first = *staging.Reserve(4096), second = *staging.Reserve(4096);
  EXPECT_EQ(staging.spilled(), 0);
  EXPECT_EQ(staging.memory_in_use(), 8192);
  const auto third = *staging.Reserve(4096);
  EXPECT_EQ(staging.spilled(), 1);
}

TEST(StagingTest, Append_BeyondWhatWasReserved_EndsTheProcessBeforeAByte) {
  TestFolder folder;
  Staging staging(folder.path(), 8192);
  const auto staged = *staging.Reserve(4096);
  ASSERT_OK(staged->Append(Bytes(std::string(4000, 'x'))));
  EXPECT_DEATH((void)staged->Append(Bytes(std::string(97, 'x'))), "bytes.size\\(\\) <= buffer_.capacity");
  ASSERT_OK(staged->Append(Bytes(std::string(96, 'x'))));
}

TEST(StagingTest, View_OfAFileThatGrows_LeavesNoMappingBehind) {
  TestFolder folder;
  Staging staging(folder.path(), 0);
  const auto mappings = [&] {
    const std::string maps = testing::ContentOf("/proc/self/maps");
    int64_t count = 0;
    for (size_t at = maps.find(folder.path()); at != maps.npos; at = maps.find(folder.path(), at + 1)) ++count;
    return count;
  };
  auto staged = *staging.Reserve(100);
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(staged->Append(Bytes("river")));
    ASSERT_OK(staged->View());
    EXPECT_EQ(mappings(), 1);
  }
  staged.reset();
  EXPECT_EQ(mappings(), 0);
}

// More than one call of the system takes; pieces of all lengths, also none.
TEST(StagingTest, AppendPieces_InMemoryAndInAFile_IsAsEachInTurn) {
  TestFolder folder;
  std::string text;
  for (int i = 0; i < 50'000; ++i) text.push_back(static_cast<char>('a' + i % 23));
  std::vector<std::span<const std::byte>> pieces;
  for (size_t at = 0, i = 0; at < text.size(); ++i) {
    pieces.push_back(Bytes(text).subspan(at, std::min(text.size() - at, i % 31)));
    at += pieces.back().size();
  }
  ASSERT_GT(pieces.size(), 3 * IOV_MAX);
  for (const int64_t budget : {1 << 20, 0}) {
    Staging staging(folder.path(), budget);
    auto staged = *staging.Reserve(std::ssize(text) + 4);
    ASSERT_OK(staged->Append(Bytes("many")));
    ASSERT_OK(staged->AppendPieces(pieces));
    EXPECT_TRUE(Text(*staged->View()) == "many" + text);
  }
}

TEST(StagingTest, Append_BeyondWhatAFileMayHold_KeepsWhatFittedAndNamesTheLimit) {
  TestFolder folder;
  Staging staging(folder.path(), 0);
  const auto staged = *staging.Reserve(100);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto signal_before = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit few{10, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &few), 0);
  const std::span<const std::byte> pieces[] = {Bytes("many "), Bytes("streams"), Bytes("river")};
  const Status status = staged->AppendPieces(pieces);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, signal_before);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted, ::testing::HasSubstr("ulimit -f")));
  EXPECT_EQ(Text(*staged->View()), "many strea");
  ASSERT_OK(staged->Append(Bytes("ms")));
  EXPECT_EQ(Text(*staged->View()), "many streams");
}

TEST(StagingTest, Append_ToADiskThatIsFullOrBroken_SaysWhich) {
  for (const bool full : {true, false}) {
    TestFolder folder;
    Staging staging(folder.path(), 0);
    const auto staged = *staging.Reserve(100);
    ASSERT_TRUE(full ? testing::ReplaceDescriptorOf(folder.path(), "/dev/full", O_RDWR)
                     : testing::ReplaceDescriptorOf(folder.path(), "/dev/null", O_RDONLY));
    EXPECT_THAT(staged->Append(Bytes("river")),
                full ? StatusIs(absl::StatusCode::kResourceExhausted, ::testing::HasSubstr("the disk is full"))
                     : StatusIs(absl::StatusCode::kInternal, ::testing::HasSubstr("cannot write a client's upload")));
    EXPECT_EQ(staged->size(), 0);
  }
}

TEST(StagingTest, Reserve_FolderGone_IsAnError) {
  Staging staging("/nonexistent/folder", 0);
  EXPECT_THAT(staging.Reserve(10),
              StatusIs(absl::StatusCode::kInternal, ::testing::HasSubstr("'/nonexistent/folder'")));
}

TEST(StagingTest, Truncate_InMemoryAndInAFile_ForgetsTheRest) {
  TestFolder folder;
  for (const int64_t budget : {4096, 0}) {
    Staging staging(folder.path(), budget);
    auto staged = *staging.Reserve(12);
    ASSERT_OK(staged->Append(Bytes("many streams")));
    EXPECT_EQ(Text(*staged->View()), "many streams");
    staged->Truncate(5);
    EXPECT_EQ(staged->size(), 5);
    EXPECT_EQ(Text(*staged->View()), "many ");
    ASSERT_OK(staged->Append(Bytes("rivers")));
    EXPECT_EQ(Text(*staged->View()), "many rivers");
  }
}

// Makes files, once it is told to.
class SlowDisk {
 public:
  StatusOr<int> Open(const std::string& folder) {
    MutexLock lock(mutex_);
    begun_ = true;
    changed_.NotifyAll();
    while (!goes_on_) changed_.Wait(mutex_);
    return OpenUnlinked(folder);
  }
  void AwaitCall() {
    MutexLock lock(mutex_);
    while (!begun_) changed_.Wait(mutex_);
  }
  void GoOn() {
    MutexLock lock(mutex_);
    goes_on_ = true;
    changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool begun_ GUARDED_BY(mutex_) = false, goes_on_ GUARDED_BY(mutex_) = false;
};

constexpr int64_t kMiB = BlockCrcs::kBlockBytes;

class UploadTest : public ::testing::Test {
 protected:
  UploadTest() : bytes_(2 * kMiB + 5, 'x') {
    bytes_[kMiB] = 'y';
    bytes_.back() = 'z';
  }
  Submission Announced() const { return {"task", 0, std::ssize(bytes_)}; }
  std::span<const std::byte> Bytes(int64_t offset, int64_t count) const {
    return std::as_bytes(std::span(bytes_)).subspan(static_cast<size_t>(offset), static_cast<size_t>(count));
  }
  // A turn that has written the first `count` bytes.
  Upload::Turn Write(int64_t count) {
    const auto turn = upload_.TakeOver(Announced());
    EXPECT_OK(turn);
    EXPECT_OK(upload_.Resume(turn->writer, 0));
    EXPECT_OK(upload_.Write(turn->writer, Bytes(0, count)));
    return *turn;
  }
  std::string bytes_;
  TestFolder folder_;
  Staging staging_{folder_.path(), 4 * kMiB};
  Upload upload_{staging_};
};

TEST_F(UploadTest, TakeOver_EndsTheWriterBeforeAndKeepsWholeBlocks) {
  const Upload::Turn first = Write(kMiB + 3);
  const Upload::Turn second = *upload_.TakeOver(Announced());
  EXPECT_THAT(second.crcs, ::testing::ElementsAre(Crc32c(Bytes(0, kMiB))));
  EXPECT_THAT(upload_.Write(first.writer, Bytes(kMiB, 1)), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(upload_.Resume(first.writer, 0), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(upload_.Complete(first.writer, IdentityOf(bytes_)), StatusIs(absl::StatusCode::kUnavailable));
  ASSERT_OK(upload_.Resume(second.writer, kMiB));
  ASSERT_OK(upload_.Write(second.writer, Bytes(kMiB, kMiB + 5)));
  const auto whole = upload_.Complete(second.writer, IdentityOf(bytes_));
  ASSERT_OK(whole);
  EXPECT_TRUE(Text(whole->bytes) == bytes_);
  EXPECT_EQ(whole->identity, IdentityOf(bytes_));
}

TEST_F(UploadTest, Resume_BeforeWhatIsStaged_DropsTheRest) {
  const Upload::Turn turn = Write(2 * kMiB);
  ASSERT_OK(upload_.Resume(turn.writer, kMiB));
  EXPECT_THAT(upload_.TakeOver(Announced())->crcs, ::testing::SizeIs(1));
}

TEST_F(UploadTest, Resume_WhereNoStagedBlockEnds_IsRefused) {
  const Upload::Turn turn = Write(kMiB);
  for (const int64_t offset : {int64_t{-kMiB}, int64_t{1}, 2 * kMiB}) {
    EXPECT_THAT(upload_.Resume(turn.writer, offset), StatusIs(absl::StatusCode::kInvalidArgument)) << offset;
  }
}

TEST_F(UploadTest, TakeOver_OfAnotherLength_StartsAnew) {
  const Upload::Turn first = Write(2 * kMiB);
  bytes_.resize(kMiB + 1);
  const Upload::Turn second = *upload_.TakeOver(Announced());
  EXPECT_THAT(second.crcs, ::testing::IsEmpty());
  EXPECT_THAT(upload_.Write(first.writer, Bytes(0, 1)), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_OK(upload_.Write(second.writer, Bytes(0, kMiB + 1)));
}

TEST_F(UploadTest, Write_BeyondTheAnnouncedLength_IsRefusedWhole) {
  const Upload::Turn turn = Write(2 * kMiB);
  EXPECT_THAT(upload_.Write(turn.writer, Bytes(0, 6)), StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_OK(upload_.Write(turn.writer, Bytes(2 * kMiB, 5)));
}

TEST_F(UploadTest, Complete_TooEarly_SaysHowMuchIsThere) {
  const Upload::Turn turn = Write(2);
  EXPECT_THAT(std::string(Message(upload_.Complete(turn.writer, IdentityOf(bytes_)).status())),
              ::testing::HasSubstr("2 of 2097157 bytes"));
}

TEST_F(UploadTest, Complete_OfAnotherIdentity_KeepsNothing) {
  const Upload::Turn turn = Write(2 * kMiB + 5);
  EXPECT_THAT(upload_.Complete(turn.writer, Sha256Of("x")), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(upload_.TakeOver(Announced())->crcs, ::testing::IsEmpty());
}

TEST_F(UploadTest, TakeOver_WhileItIsChecked_IsAskedToWait) {
  const Upload::Turn turn = Write(2 * kMiB + 5);
  ASSERT_OK(upload_.Complete(turn.writer, IdentityOf(bytes_)));
  EXPECT_THAT(upload_.TakeOver(Announced()), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(UploadTest, Cancel_FreesTheBytesAndTellsTheWriterWhy) {
  const Upload::Turn turn = Write(1);
  upload_.Cancel("too late");
  EXPECT_EQ(staging_.memory_in_use(), 0);
  EXPECT_THAT(upload_.Write(turn.writer, Bytes(1, 1)), StatusIs(absl::StatusCode::kAborted, "too late"));
}

TEST_F(UploadTest, Cancel_WhileItIsChecked_LeavesTheBytesToTheChecker) {
  const Upload::Turn turn = Write(2 * kMiB + 5);
  const auto whole = *upload_.Complete(turn.writer, IdentityOf(bytes_));
  upload_.Cancel("too late");
  EXPECT_TRUE(Text(whole.bytes) == bytes_);
  upload_.Release();
  EXPECT_EQ(staging_.memory_in_use(), 0);
}

// Owners cancel under their own locks: those must not wait for a disk.
TEST_F(UploadTest, Cancel_WhileItsFileIsOpened_DoesNotWaitAndEndsTheTakeOver) {
  SlowDisk disk;
  Staging staging(folder_.path(), 0, [&](const std::string& folder) { return disk.Open(folder); });
  Upload upload(staging);
  std::thread opener(
      [&] { EXPECT_THAT(upload.TakeOver(Announced()), StatusIs(absl::StatusCode::kAborted, "too late")); });
  disk.AwaitCall();
  EXPECT_EQ(upload.Cancel("too late"), nullptr) << "the take-over frees it";
  disk.GoOn();
  opener.join();
  EXPECT_EQ(staging.spilled(), 1);
}

TEST_F(UploadTest, TakeOver_WhileAnotherOpensItsFile_LeavesOneWriter) {
  SlowDisk disk;
  Staging staging(folder_.path(), 0, [&](const std::string& folder) { return disk.Open(folder); });
  Upload upload(staging);
  StatusOr<Upload::Turn> first = Internal("none"), second = Internal("none");
  std::thread opener([&] { first = upload.TakeOver(Announced()); });
  disk.AwaitCall();
  std::thread newer([&] { second = upload.TakeOver(Announced()); });
  disk.GoOn();
  opener.join();
  newer.join();
  ASSERT_OK(first);
  ASSERT_OK(second);
  EXPECT_EQ(staging.spilled(), 1);
  EXPECT_THAT(upload.Write(first->writer, Bytes(0, 1)), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_OK(upload.Write(second->writer, Bytes(0, 1)));
}

// What Intake gives to its owner.
class IntakeTest : public ::testing::Test {
 protected:
  // Of an update; each end is remembered.
  std::unique_ptr<ChunkWriter> Begin(Intake& intake, const Submission& submission) {
    auto writer = Announced(intake, submission).Open();
    EXPECT_OK(writer);
    return *std::move(writer);
  }
  Intake::Begun Announced(Intake& intake, const Submission& submission) {
    return intake.BeginUpdate(submission, [&](const Upload::Whole& whole, StatusOr<ArrivedUpdate> update) {
      taken_.push_back(whole.submission);
      read_.push_back(update.status());
      return SubmitResult{SubmitResult::Kind::kDuplicate, ""};
    });
  }
  static Status Write(ChunkWriter& writer, const std::string& bytes) {
    RIVULET_RETURN_IF_ERROR(writer.Resume(0));
    return writer.Write(Bytes(bytes));
  }

  TestFolder folder_;
  Intake intake_{folder_.path(), 1 << 20};
  std::vector<Submission> taken_;
  std::vector<Status> read_;
  const std::string update_ = MakeUpdate({1, 2, 3}, 12, 0.5);
};

TEST_F(IntakeTest, WholeUpdate_IsReadAndTakenOnce) {
  const auto writer = Begin(intake_, Announce("a", update_));
  ASSERT_OK(Write(*writer, update_));
  EXPECT_GT(intake_.memory_in_use(), 0);
  EXPECT_EQ(writer->Finish(IdentityOf(update_))->kind, SubmitResult::Kind::kDuplicate) << "as its owner says";
  EXPECT_EQ(intake_.memory_in_use(), 0);
  ASSERT_THAT(taken_, ::testing::SizeIs(1));
  EXPECT_EQ(taken_[0].task, "a");
  EXPECT_OK(read_[0]);
  EXPECT_FALSE(writer->Finish(IdentityOf(update_)).ok());
  EXPECT_THAT(taken_, ::testing::SizeIs(1));
}

TEST_F(IntakeTest, UpdateThatCannotBeRead_IsTakenWithTheReason) {
  const std::string nonsense = "no update";
  const auto writer = Begin(intake_, Announce("a", nonsense));
  ASSERT_OK(Write(*writer, nonsense));
  ASSERT_OK(writer->Finish(IdentityOf(nonsense)));
  EXPECT_THAT(read_.at(0), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(IntakeTest, SameTaskTwice_IsOneUploadOfTheLatestWriter) {
  const auto first = Begin(intake_, {"a", 0, 10}), second = Begin(intake_, {"a", 0, 10}),
             b = Begin(intake_, {"b", 0, 10});
  EXPECT_THAT(first->Resume(0), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_OK(second->Resume(0));
  EXPECT_OK(b->Resume(0));
}

TEST_F(IntakeTest, LaterStepOfATask_IsAnUploadBesideTheFirst) {
  const auto first = Begin(intake_, {"a", 0, 10});
  Submission later = Announce("a", update_);
  later.step = 1;
  const auto second = Begin(intake_, later);
  EXPECT_OK(first->Resume(0)) << "nobody has taken it over";
  ASSERT_OK(Write(*second, update_));
  EXPECT_THAT(second->Finish(IdentityOf(update_)), StatusIs(absl::StatusCode::kDataLoss))
      << "the step is in the identity";
  ASSERT_OK(Write(*second, update_));
  ASSERT_OK(second->Finish(CrcsOf(update_).Identity(1)));
  EXPECT_EQ(taken_.at(0).step, 1);
}

TEST_F(IntakeTest, Cancel_OneOrAll_FreesTheirBytesAndTellsWhy) {
  const auto a = Begin(intake_, {"a", 0, 4096}), b = Begin(intake_, {"b", 0, 4096}), c = Begin(intake_, {"c", 0, 4096});
  intake_.Cancel("a", "late");
  intake_.Cancel("nobody", "late");
  EXPECT_EQ(intake_.memory_in_use(), 2 * 4096);
  EXPECT_THAT(a->Resume(0), StatusIs(absl::StatusCode::kAborted, "late"));
  EXPECT_EQ(a->Finish({})->reason, "late");
  intake_.CancelAll("over");
  EXPECT_EQ(intake_.memory_in_use(), 0);
  EXPECT_EQ(c->Finish({})->kind, SubmitResult::Kind::kRefused);
  EXPECT_THAT(taken_, ::testing::IsEmpty());
}

// Owners begin under their locks, and a disk may be slow.
TEST_F(IntakeTest, Begin_BeyondTheBudget_LeavesTheFileToOpen) {
  Intake nowhere("/nonexistent/folder", 0);
  Intake::Begun begun = Announced(nowhere, {"a", 0, 10});
  EXPECT_THAT(std::move(begun).Open(),
              StatusIs(absl::StatusCode::kInternal, ::testing::HasSubstr("'/nonexistent/folder'")));
}

TEST_F(IntakeTest, CancelledBeforeItOpens_IsRefusedOrAskedForAgain) {
  bool stopped = false;
  Intake intake(folder_.path(), 0, [&] { return stopped; });
  Intake::Begun refused = Announced(intake, {"a", 0, 10}), later = Announced(intake, {"b", 0, 10});
  intake.Cancel("a", "late");
  const auto writer = std::move(refused).Open();
  ASSERT_OK(writer);
  ASSERT_NE((*writer)->decided(), nullptr);
  EXPECT_EQ((*writer)->decided()->kind, SubmitResult::Kind::kRefused);
  EXPECT_EQ((*writer)->decided()->reason, "late");
  stopped = true;
  intake.CancelAll("the run was stopped");
  EXPECT_THAT(std::move(later).Open(), StatusIs(absl::StatusCode::kUnavailable, "the run was stopped"));
}

// A file's end may wait for a disk, and Cancel is called under an owner's lock.
TEST_F(IntakeTest, FileOfACancelledUpload_IsClosedByTheNextCallThatHoldsNoLock) {
  const auto files = [&] {
    int64_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      count += std::filesystem::read_symlink(entry, gone).string().starts_with(folder_.path()) ? 1 : 0;
    }
    return count;
  };
  Intake intake(folder_.path(), 0);
  auto a = Begin(intake, {"a", 0, 10});
  ASSERT_EQ(files(), 1);
  intake.Cancel("a", "late");
  a.reset();
  EXPECT_EQ(files(), 1);
  const auto b = Begin(intake, {"b", 0, 10});
  EXPECT_EQ(files(), 1) << "its own alone";
}

TEST_F(IntakeTest, CutOffWhereTheOwnerMayGoOn_IsAskedForAgain) {
  bool stopped = false;
  Intake intake(folder_.path(), 1 << 20, [&] { return stopped; });
  const auto a = Begin(intake, {"a", 0, 4096}), b = Begin(intake, {"b", 0, 4096});
  intake.CancelAll("the run was stopped");
  EXPECT_EQ(a->Finish({})->kind, SubmitResult::Kind::kRefused);
  stopped = true;
  EXPECT_THAT(b->Finish({}), StatusIs(absl::StatusCode::kUnavailable, "the run was stopped"));
}

TEST_F(IntakeTest, PartialThatCannotBeRight_ItsProcessIsNotTrusted) {
  const std::string nonsense = "no partial";
  Submission submission;
  submission.kind = Submission::Kind::kPartial;
  submission.bytes = std::ssize(nonsense);
  const Caller site{.name = "site 1", .session = 1}, again{.name = "site 1", .session = 2};
  Status read;
  auto begun = intake_.BeginPartial(
      "partial", site, submission, TinyParts(3, 2).aggregation, 4,
      [&](StatusOr<SitePartial> partial, std::span<const std::byte> bytes, const Intake::Release& release) {
        read = partial.status();
        EXPECT_EQ(bytes.size(), nonsense.size());
        release();
        EXPECT_EQ(intake_.memory_in_use(), 0);
        return SubmitResult{SubmitResult::Kind::kRefused, "wrong"};
      });
  const auto writer = std::move(begun).Open();
  ASSERT_OK(writer);
  EXPECT_OK(intake_.distrusted().Check(site));
  ASSERT_OK(Write(**writer, nonsense));
  EXPECT_EQ((*writer)->Finish(IdentityOf(nonsense))->reason, "wrong");
  EXPECT_FALSE(read.ok());
  EXPECT_THAT(intake_.distrusted().Check(site),
              StatusIs(absl::StatusCode::kPermissionDenied, ::testing::HasSubstr(std::string(Message(read)))));
  EXPECT_OK(intake_.distrusted().Check(again)) << "it was started again";
}

TEST_F(IntakeTest, State_IsTakenAsItCame) {
  std::string taken;
  auto begun = intake_.BeginState("state", {"a", 0, 5}, [&](std::string state) {
    EXPECT_EQ(intake_.memory_in_use(), 0) << "it is the owner's by now";
    taken = std::move(state);
    return SubmitResult{};
  });
  const auto writer = std::move(begun).Open();
  ASSERT_OK(writer);
  ASSERT_OK(Write(**writer, "state"));
  ASSERT_OK((*writer)->Finish(IdentityOf("state")));
  EXPECT_EQ(taken, "state");
}

TEST(WrongSizeTest, NothingAndTooMuch_AreRefusedByTheirNumbers) {
  EXPECT_EQ(WrongSize("a state", 1, 10), "");
  EXPECT_EQ(WrongSize("a state", 10, 10), "");
  EXPECT_EQ(WrongSize("a state", 0, 10), "a state of 0 bytes was announced, and those of this plan have 1 to 10");
  EXPECT_EQ(WrongSize("a state", 11, 10), "a state of 11 bytes was announced, and those of this plan have 1 to 10");
}

TEST(ReadUpdate, TakesExamplesAsWeightAndMeasurementsFromTheAnnouncement) {
  const std::string bytes = MakeUpdate({1, 2, 3}, 12, 0.5);
  const auto update = ReadUpdate({Bytes(bytes), IdentityOf(bytes), Announce("task", bytes)});
  ASSERT_OK(update);
  EXPECT_EQ(update->record.task, "task");
  EXPECT_EQ(update->record.examples, 12);
  EXPECT_EQ(update->record.steps, 6);
  EXPECT_EQ(update->record.declared.at("train_loss"), 0.5);
  EXPECT_EQ(update->record.train_seconds, 0.25);
  const UpdateView view = update->view(4);
  EXPECT_EQ(view.base_version, 4);
  ASSERT_EQ(view.parts.size(), 1u);
  EXPECT_EQ(view.parts[0].data.size(), 3 * sizeof(float));
}

TEST(ReadUpdate, ExamplesThatAreNoCount_AreRefused) {
  for (const double examples : {-1.0, 2.5, 1e300, std::nan("")}) {
    proto::Update message;
    (*message.mutable_scalars())["examples"] = examples;
    const std::string bytes = message.SerializeAsString();
    EXPECT_THAT(ReadUpdate({Bytes(bytes), {}, {}}), StatusIs(absl::StatusCode::kInvalidArgument)) << examples;
  }
}

TEST(ReadUpdate, SecondsThatAreNone_AreLeftOut) {
  const std::string bytes = MakeUpdate({1}, 1);
  for (const double seconds : {-1.0, std::nan(""), static_cast<double>(INFINITY)}) {
    Submission submission = Announce("task", bytes);
    submission.measured.train_seconds = seconds;
    EXPECT_EQ(ReadUpdate({Bytes(bytes), {}, submission})->record.train_seconds, std::nullopt);
  }
}

TEST(PotTest, FoldsAndPartials_GatherAndTheirSecondsAddUp) {
  AggregationSpec spec;
  spec.parts = {{.elements = 1}};
  spec.updates_per_version = 2;
  RoundAccumulator pot(*Aggregation::Create(spec));
  const float one = 1, three = 3;
  const Scalars none, declared = {{"examples", 1}};
  const auto part = [](const float& value) {
    return PartView{.name = "delta", .data = std::as_bytes(std::span(&value, 1))};
  };
  const PartView first = part(one), second = part(three);
  EXPECT_EQ(Message(pot.Take({"a", 0, {&first, 1}, none}).status()),
            "the declared 'examples', which weighs an update, is missing");
  ASSERT_OK(pot.Take({"a", 0, {&first, 1}, declared}));
  auto site = *Aggregation::Create(spec);
  ASSERT_OK(site->Take({"b", 0, {&second, 1}, none}, {.parts = {1}}));
  ASSERT_OK(pot.Merge(site->Extract(0), 2.5));
  EXPECT_GE(pot.fold_seconds(), 2.5);
  const auto mean = std::move(*pot.Close()).Finish();
  ASSERT_OK(mean);
  EXPECT_EQ(mean->parts[0].mean[0], 2);
}

}  // namespace
}  // namespace rivulet
