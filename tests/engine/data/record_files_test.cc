// Patterns of record files.
#include "engine/data/record_files.h"

#include <filesystem>

#include "tests/engine/data/data_test.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

class RecordFilesTest : public DataTest {};

TEST_F(RecordFilesTest, Shards_AreReadInTheOrderOfTheirNames) {
  Write("part-10.tfrecord", Frames({"e"}));
  Write("part-02.tfrecord", Frames({"c", "d"}));
  Write("part-01.tfrecord", Frames({"a", "b"}));
  Write("other.tfrecord", Frames({"z"}));
  ASSERT_OK_AND_ASSIGN(const auto data, OpenRecordsMatching(Path("part-*.tfrecord")));
  std::string all, record;
  for (int64_t i = 0; i < data->size(); ++i) {
    ASSERT_OK(data->Read(i, record));
    all += record;
  }
  EXPECT_EQ(all, "abcde");
  EXPECT_THAT(data->Where(3), HasSubstr("part-02.tfrecord: record 1"));
}

// Opening makes indices beside the files, which the same pattern would match the next time.
TEST_F(RecordFilesTest, IndicesBesideShards_AreNoShards) {
  Write("part-1", Frames({"a"}));
  Write("part-2", Frames({"b"}));
  ASSERT_OK(OpenRecordsMatching(Path("part-*")));
  Write("part-1.index", "something");
  EXPECT_THAT(*RecordFilesMatching(Path("part-*")), ElementsAre(Path("part-1"), Path("part-2")));
}

TEST_F(RecordFilesTest, FileOfTheVeryName_StandsForItself) {
  Write("a[1].tfrecord", Frames({"a"}));
  Write("a1.tfrecord", Frames({"b"}));
  EXPECT_THAT(*RecordFilesMatching(Path("a[1].tfrecord")), ElementsAre(Path("a[1].tfrecord")));
}

TEST_F(RecordFilesTest, Nothing_IsSaid) {
  EXPECT_THAT(RecordFilesMatching(Path("part-*")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no file matches '")));
  EXPECT_THAT(RecordFilesMatching(Path("part")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("part: no such file")));
}

}  // namespace
}  // namespace rivulet
