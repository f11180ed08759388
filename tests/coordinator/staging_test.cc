#include "coordinator/staging/staging.h"

#include "coordinator/upload.h"
#include "test_run.h"
#include "tests/testing/status_matchers.h"

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

TEST(StagingTest, Reserve_FolderGone_IsAnError) {
  Staging staging("/nonexistent/folder", 0);
  EXPECT_THAT(staging.Reserve(10),
              StatusIs(absl::StatusCode::kInternal, ::testing::HasSubstr("'/nonexistent/folder'")));
}

class UploadTest : public ::testing::Test {
 protected:
  UploadTest() : staging_(folder_.path(), 1 << 20), upload_(*staging_.Reserve(5), 5, Sha256Of("river")) {}
  TestFolder folder_;
  Staging staging_;
  Upload upload_;
};

TEST_F(UploadTest, TakeOver_EndsTheWriterBefore) {
  const Upload::Turn first = *upload_.TakeOver();
  ASSERT_OK(upload_.Write(first.writer, Bytes("riv")));
  const Upload::Turn second = *upload_.TakeOver();
  EXPECT_EQ(second.offset, 3);
  EXPECT_THAT(upload_.Write(first.writer, Bytes("er")), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(upload_.Complete(first.writer), StatusIs(absl::StatusCode::kUnavailable));
  ASSERT_OK(upload_.Write(second.writer, Bytes("er")));
  EXPECT_EQ(Text(*upload_.Complete(second.writer)), "river");
}

TEST_F(UploadTest, Write_BeyondTheAnnouncedLength_IsRefusedWhole) {
  const auto turn = *upload_.TakeOver();
  EXPECT_THAT(upload_.Write(turn.writer, Bytes("rivers")), StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_EQ(upload_.TakeOver()->offset, 0);
}

TEST_F(UploadTest, Complete_TooEarly_SaysHowMuchIsThere) {
  const auto turn = *upload_.TakeOver();
  ASSERT_OK(upload_.Write(turn.writer, Bytes("ri")));
  EXPECT_THAT(std::string(Message(upload_.Complete(turn.writer).status())), ::testing::HasSubstr("2 of 5 bytes"));
}

TEST_F(UploadTest, TakeOver_WhileItIsChecked_IsAskedToWait) {
  const auto turn = *upload_.TakeOver();
  ASSERT_OK(upload_.Write(turn.writer, Bytes("river")));
  ASSERT_OK(upload_.Complete(turn.writer));
  EXPECT_THAT(upload_.TakeOver(), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(UploadTest, Cancel_FreesTheBytesAndTellsTheWriterWhy) {
  const auto turn = *upload_.TakeOver();
  upload_.Cancel("too late");
  EXPECT_EQ(staging_.memory_in_use(), 0);
  const Status status = upload_.Write(turn.writer, Bytes("r"));
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kAborted, "too late"));
}

TEST_F(UploadTest, Cancel_WhileItIsChecked_LeavesTheBytesToTheChecker) {
  const auto turn = *upload_.TakeOver();
  ASSERT_OK(upload_.Write(turn.writer, Bytes("river")));
  const auto bytes = *upload_.Complete(turn.writer);
  upload_.Cancel("too late");
  EXPECT_EQ(Text(bytes), "river");
  upload_.Release();
  EXPECT_EQ(staging_.memory_in_use(), 0);
}

}  // namespace
}  // namespace rivulet
