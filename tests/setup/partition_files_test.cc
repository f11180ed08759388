#include "setup/partition_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "tests/testing/memory_dataset.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using testing::MemoryDataset;

Shares Named(std::vector<std::string> names, std::vector<uint64_t> ends, std::vector<uint32_t> examples) {
  return *Shares::OfNamed(std::move(names), std::move(ends), std::move(examples));
}

TEST(PartitionFilesTest, Shares_BecomeFilesInTheirOrder) {
  const testing::TempFolder temp;
  const MemoryDataset data({"zero", "one", "two", "three"});
  const Shares shares = Named({"a", "b"}, {1, 3}, {1, 3, 0});
  const auto paths = WritePartitionFiles(FileSystem::Default(), data, shares, temp.File("partition"));
  ASSERT_OK(paths);
  ASSERT_EQ(paths->size(), 2u);
  EXPECT_TRUE((*paths)[0].ends_with("/a.tfrecord"));
  EXPECT_TRUE((*paths)[1].ends_with("/b.tfrecord"));
  const auto b = Dataset::Open({(*paths)[1]});
  ASSERT_OK(b);
  ASSERT_EQ((*b)->size(), 2);
  std::string record;
  ASSERT_OK((*b)->Read(0, record));
  EXPECT_EQ(record, "three");
  ASSERT_OK((*b)->Read(1, record));
  EXPECT_EQ(record, "zero");
}

TEST(PartitionFilesTest, ClientIdThatIsNoFileName_IsRefusedBeforeAnythingIsWritten) {
  const MemoryDataset data({"zero", "one"});
  for (const std::string id : {"", ".", "..", ".hidden", "a/b", "../../etc/x"}) {
    const testing::TempFolder temp;
    const std::string folder = temp.File("refused");
    std::vector<std::string> names = {"good", id};
    std::sort(names.begin(), names.end());
    const auto paths = WritePartitionFiles(FileSystem::Default(), data, Named(names, {1, 2}, {0, 1}), folder);
    EXPECT_THAT(paths, StatusIs(absl::StatusCode::kInvalidArgument)) << id;
    EXPECT_FALSE(FileSystem::Default().Exists(folder)) << id;
  }
}

TEST(PartitionFilesTest, FolderThatCannotBeMade_IsAnErrorThatNamesIt) {
  const MemoryDataset data({"zero"});
  const auto paths = WritePartitionFiles(FileSystem::Default(), data, Named({"a"}, {1}, {0}), "/dev/null/partition");
  EXPECT_THAT(paths, ::testing::Not(::rivulet::testing::IsOk()));
  EXPECT_THAT(Message(paths.status()), ::testing::HasSubstr("/dev/null"));
}

}  // namespace
}  // namespace rivulet
