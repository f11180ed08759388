// Event files match the format that TensorBoard's loader expects, record by record.
#include "engine/data/event_file.h"

#include <filesystem>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <span>

#include "engine/data/tfrecord.h"
#include "proto/graph/event.pb.h"
#include "proto/graph/hparams.pb.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet::testing {
namespace {

NextSummary OneByOne(std::span<const SummaryEvent> events) {
  return [events, at = size_t{0}]() mutable -> StatusOr<std::optional<SummaryEvent>> {
    if (at == events.size()) return std::nullopt;
    return events[at++];
  };
}

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
  ASSERT_OK_AND_ASSIGN(const std::string path,
                       WriteSummaryEvents(FileSystem::Default(), folder.File("run"), OneByOne(events)));
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

TEST(EventFile, Run_HasGraphHyperparametersPicturesAndItsEnd) {
  const TempFolder folder;
  const SummaryEvent events[] = {{.step = 1,
                                  .wall_time = 12.5,
                                  .scalars = {},
                                  .images = {{.tag = "confusion", .width = 2, .height = 3, .png = "png"}},
                                  .graph_def = "graph",
                                  .hyperparameters = {{"rate", 0.5}, {"kind", std::string("sgd")}, {"shuffle", true}},
                                  .end = SummaryEnd::kFailure},
                                 {.step = 2, .wall_time = 13, .scalars = {}}};
  ASSERT_OK_AND_ASSIGN(const std::string path,
                       WriteSummaryEvents(FileSystem::Default(), folder.File("run"), OneByOne(events)));
  ASSERT_OK_AND_ASSIGN(const auto reader, RecordReader::Open(path));
  std::string record;
  proto::Event event;
  ASSERT_OK_AND_ASSIGN(bool more, reader->Next(record));  // the version
  ASSERT_OK_AND_ASSIGN(more, reader->Next(record));
  ASSERT_TRUE(more && event.ParseFromString(record));
  EXPECT_EQ(event.graph_def(), "graph");
  ASSERT_OK_AND_ASSIGN(more, reader->Next(record));
  ASSERT_TRUE(more && event.ParseFromString(record));
  ASSERT_EQ(event.summary().value_size(), 3);
  proto::HParamsPluginData data;
  const proto::Summary::Value& start = event.summary().value(0);
  EXPECT_EQ(start.tag(), "_hparams_/session_start_info");
  EXPECT_EQ(start.metadata().plugin_data().plugin_name(), "hparams");
  EXPECT_EQ(start.tensor().dtype(), proto::DT_FLOAT);
  ASSERT_TRUE(data.ParseFromString(start.metadata().plugin_data().content()));
  ASSERT_EQ(data.session_start_info().hparams_size(), 3);
  EXPECT_EQ(data.session_start_info().hparams(0).key(), "rate");
  EXPECT_EQ(data.session_start_info().hparams(0).value().number_value(), 0.5);
  EXPECT_EQ(data.session_start_info().hparams(1).value().string_value(), "sgd");
  EXPECT_TRUE(data.session_start_info().hparams(2).value().bool_value());
  ASSERT_TRUE(data.ParseFromString(event.summary().value(1).metadata().plugin_data().content()));
  EXPECT_EQ(data.session_end_info().status(), 2);
  EXPECT_EQ(data.session_end_info().end_time_secs(), 12.5);
  EXPECT_EQ(event.summary().value(2).image().height(), 3);
  EXPECT_EQ(event.summary().value(2).image().encoded_image_string(), "png");
  ASSERT_OK_AND_ASSIGN(more, reader->Next(record));
  EXPECT_FALSE(more) << "a step that says nothing is not written";
}

TEST(EventFile, Read_NumbersAndWhatTheRunWasTold) {
  const TempFolder folder;
  const SummaryEvent events[] = {
      {.step = 1, .wall_time = 12.5, .scalars = {{"loss", 0.25}, {"accuracy", 0.5}}, .histograms = {{"norm", {1, 2}}}},
      {.step = 2,
       .wall_time = 13.5,
       .scalars = {{"loss", 0.125}},
       .hyperparameters = {{"rate", 0.5}, {"kind", "sgd"}, {"nesterov", true}},
       .end = SummaryEnd::kFailure}};
  ASSERT_OK_AND_ASSIGN(const std::string path,
                       WriteSummaryEvents(FileSystem::Default(), folder.File("run"), OneByOne(events)));
  ASSERT_OK_AND_ASSIGN(EventFileNumbers read, ReadEventFile(path));
  ASSERT_EQ(read.scalars.size(), 3u) << "histograms are no numbers";
  EXPECT_EQ(read.scalars[1].tag, "accuracy");
  EXPECT_EQ(read.scalars[1].value, 0.5);
  EXPECT_EQ(read.scalars[2].step, 2);
  EXPECT_EQ(read.scalars[2].wall_time, 13.5);
  EXPECT_EQ(read.last_time, 13.5);
  ASSERT_EQ(read.hyperparameters.size(), 3u);
  EXPECT_EQ(read.hyperparameters[0], (std::pair<std::string, HyperParameter>("rate", 0.5)));
  EXPECT_EQ(read.hyperparameters[1], (std::pair<std::string, HyperParameter>("kind", std::string("sgd"))));
  EXPECT_EQ(read.hyperparameters[2], (std::pair<std::string, HyperParameter>("nesterov", true)));
  EXPECT_EQ(read.end, SummaryEnd::kFailure);

  // As a process leaves it that was killed while it wrote.
  ASSERT_OK_AND_ASSIGN(const std::string whole, FileSystem::Default().ReadAll(path));
  for (const size_t missing : {size_t{1}, size_t{30}}) {
    const std::string cut =
        folder.Write(fmt::format("cut{}.tfevents", missing), whole.substr(0, whole.size() - missing));
    ASSERT_OK_AND_ASSIGN(read, ReadEventFile(cut));
    EXPECT_EQ(read.scalars.size(), 2u) << "those of whole records";
  }
  std::string damaged = whole;
  damaged[whole.size() / 2] ^= 1;
  EXPECT_THAT(ReadEventFile(folder.Write("damaged.tfevents", damaged)), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(EventFile, Read_ThoseOfTensorFlow) {
  if (TestData().empty()) GTEST_SKIP() << "RIVULET_TEST_DATA is not set";
  const std::string folder = TestData() + "/tfevents/";
  ASSERT_OK_AND_ASSIGN(const EventFileNumbers keras,
                       ReadEventFile(folder + "iris-keras-train/events.out.tfevents.1598485465.penguin.1486.6519.v2"));
  std::map<std::string, std::vector<ScalarEvent>> by_tag;
  for (const ScalarEvent& scalar : keras.scalars) by_tag[scalar.tag].push_back(scalar);
  ASSERT_EQ(by_tag.size(), 4u);
  ASSERT_EQ(by_tag["batch_loss"].size(), 100u);
  EXPECT_NEAR(by_tag["batch_loss"].front().value, 0.858157, 1e-6);
  EXPECT_NEAR(by_tag["batch_loss"].back().value, 0.0724436, 1e-7);
  EXPECT_EQ(by_tag["batch_loss"].back().step, 100);
  EXPECT_EQ(by_tag["epoch_sparse_categorical_accuracy"].size(), 20u);
  ASSERT_OK_AND_ASSIGN(const EventFileNumbers estimator,
                       ReadEventFile(folder + "taxi-estimator-eval-2019a/events.out.tfevents.1550769233"));
  ASSERT_EQ(estimator.scalars.size(), 20u);
  EXPECT_EQ(estimator.scalars.front().step, 999);
  EXPECT_EQ(estimator.scalars.back().step, 10000);
}

TEST(EventFile, FolderThatIsAFile_IsAnError) {
  const TempFolder folder;
  const std::string file = folder.Write("not_a_folder", "x");
  EXPECT_THAT(WriteGraphEvent(FileSystem::Default(), file, "bytes", 1), ::testing::Not(IsOk()));
}

}  // namespace
}  // namespace rivulet::testing
