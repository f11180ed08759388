// Event files: what is written is what TensorBoard's loader expects, record by record.
#include "engine/data/event_file.h"

#include <filesystem>

#include "engine/data/tfrecord.h"
#include "proto/graph/event.pb.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet::testing {
namespace {

TEST(EventFile, Graph_FollowsTheVersion) {
  const TempFolder folder;
  ASSERT_OK_AND_ASSIGN(const std::string path,
                       WriteGraphEvent(FileSystem::Default(), folder.File("run"), "bytes", 12.5));
  EXPECT_EQ(std::filesystem::path(path).filename(), "events.out.tfevents.0000000012.rivulet");
  ASSERT_OK_AND_ASSIGN(const auto reader, RecordReader::Open(path));
  std::string record;
  proto::Event event;
  ASSERT_OK_AND_ASSIGN(bool more, reader->Next(record));
  ASSERT_TRUE(more && event.ParseFromString(record));
  EXPECT_EQ(event.file_version(), "brain.Event:2");
  EXPECT_EQ(event.wall_time(), 12.5);
  ASSERT_OK_AND_ASSIGN(more, reader->Next(record));
  ASSERT_TRUE(more && event.ParseFromString(record));
  EXPECT_EQ(event.graph_def(), "bytes");
  EXPECT_EQ(event.wall_time(), 12.5);
  ASSERT_OK_AND_ASSIGN(more, reader->Next(record));
  EXPECT_FALSE(more);
}

TEST(EventFile, FolderThatIsAFile_IsAnError) {
  const TempFolder folder;
  const std::string file = folder.Write("not_a_folder", "x");
  EXPECT_THAT(WriteGraphEvent(FileSystem::Default(), file, "bytes", 1), ::testing::Not(IsOk()));
}

}  // namespace
}  // namespace rivulet::testing
