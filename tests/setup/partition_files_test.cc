#include "setup/partition_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/testing/memory_dataset.h"

namespace rivulet {
namespace {

using testing::MemoryDataset;

std::string NewFolder(const std::string& name) {
  return JoinPath(::testing::TempDir(), fmt::format("{}-{}", name, getpid()));
}

TEST(PartitionFilesTest, Shares_BecomeFilesInTheSharesOrder) {
  const MemoryDataset data({"zero", "one", "two", "three"});
  const std::vector<ClientShare> shares = {{"b", {3, 0}}, {"a", {1}}};
  const auto paths = WritePartitionFiles(FileSystem::Default(), data, shares, NewFolder("partition"));
  ASSERT_TRUE(paths.ok()) << paths.status();
  ASSERT_EQ(paths->size(), 2u);
  EXPECT_TRUE((*paths)[0].ends_with("/b.tfrecord"));
  EXPECT_TRUE((*paths)[1].ends_with("/a.tfrecord"));
  const auto b = Dataset::Open({(*paths)[0]});
  ASSERT_TRUE(b.ok()) << b.status();
  ASSERT_EQ((*b)->size(), 2);
  std::string record;
  ASSERT_TRUE((*b)->Read(0, record).ok());
  EXPECT_EQ(record, "three");
  ASSERT_TRUE((*b)->Read(1, record).ok());
  EXPECT_EQ(record, "zero");
}

TEST(PartitionFilesTest, ClientIdThatIsNoFileName_IsRefusedBeforeAnythingIsWritten) {
  const MemoryDataset data({"zero", "one"});
  for (const std::string id : {"", ".", "..", ".hidden", "a/b", "../../etc/x"}) {
    const std::string folder = NewFolder("refused");
    const auto paths =
        WritePartitionFiles(FileSystem::Default(), data, std::vector<ClientShare>{{"good", {0}}, {id, {1}}}, folder);
    EXPECT_EQ(paths.status().code(), absl::StatusCode::kInvalidArgument) << id;
    EXPECT_FALSE(FileSystem::Default().Exists(folder)) << id;
  }
}

TEST(PartitionFilesTest, FolderThatCannotBeMade_IsAnErrorThatNamesIt) {
  const MemoryDataset data({"zero"});
  const auto paths =
      WritePartitionFiles(FileSystem::Default(), data, std::vector<ClientShare>{{"a", {0}}}, "/dev/null/partition");
  ASSERT_FALSE(paths.ok());
  EXPECT_NE(Message(paths.status()).find("/dev/null"), std::string_view::npos) << paths.status();
}

}  // namespace
}  // namespace rivulet
