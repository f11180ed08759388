// Event files: what is written is what TensorBoard's loader expects, record by record.
#include "engine/data/event_file.h"

#include <filesystem>
#include <limits>
#include <numeric>

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

TEST(EventFile, Summaries_ScalarsAndHistogramsOfEachStep) {
  const TempFolder folder;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const SummaryEvent events[] = {
      {.step = 1, .wall_time = 12.5, .scalars = {{"loss", 0.25}}, .histograms = {{"norm", {1, 2, nan, 4, 4}}}},
      {.step = 2, .wall_time = 13.5, .scalars = {}, .histograms = {{"norm", {3, 3}}, {"none", {nan}}}}};
  ASSERT_OK_AND_ASSIGN(const std::string path, WriteSummaryEvents(FileSystem::Default(), folder.File("run"), events));
  ASSERT_OK_AND_ASSIGN(const auto reader, RecordReader::Open(path));
  std::string record;
  proto::Event event;
  ASSERT_OK_AND_ASSIGN(bool more, reader->Next(record));  // the version
  ASSERT_OK_AND_ASSIGN(more, reader->Next(record));
  ASSERT_TRUE(more && event.ParseFromString(record));
  EXPECT_EQ(event.step(), 1);
  EXPECT_EQ(event.wall_time(), 12.5);
  ASSERT_EQ(event.summary().value_size(), 2);
  EXPECT_EQ(event.summary().value(0).tag(), "loss");
  EXPECT_EQ(event.summary().value(0).simple_value(), 0.25f);
  const proto::HistogramProto& histogram = event.summary().value(1).histo();
  EXPECT_EQ(histogram.min(), 1);
  EXPECT_EQ(histogram.max(), 4);
  EXPECT_EQ(histogram.num(), 4) << "NaN is no value";
  EXPECT_EQ(histogram.sum(), 11);
  EXPECT_EQ(histogram.sum_squares(), 37);
  ASSERT_EQ(histogram.bucket_size(), histogram.bucket_limit_size());
  EXPECT_EQ(histogram.bucket(0), 1);
  EXPECT_EQ(histogram.bucket(histogram.bucket_size() - 1), 2);
  EXPECT_EQ(histogram.bucket_limit(histogram.bucket_size() - 1), 4);
  EXPECT_EQ(std::accumulate(histogram.bucket().begin(), histogram.bucket().end(), 0.0), 4);
  ASSERT_OK_AND_ASSIGN(more, reader->Next(record));
  ASSERT_TRUE(more && event.ParseFromString(record));
  ASSERT_EQ(event.summary().value_size(), 1) << "nothing is told of no values";
  EXPECT_EQ(event.summary().value(0).histo().bucket_size(), 1) << "of one value";
  EXPECT_EQ(event.summary().value(0).histo().bucket(0), 2);
}

TEST(EventFile, FolderThatIsAFile_IsAnError) {
  const TempFolder folder;
  const std::string file = folder.Write("not_a_folder", "x");
  EXPECT_THAT(WriteGraphEvent(FileSystem::Default(), file, "bytes", 1), ::testing::Not(IsOk()));
}

}  // namespace
}  // namespace rivulet::testing
