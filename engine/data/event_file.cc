#include "engine/data/event_file.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/data/tfrecord.h"
#include "engine/io/new_folder.h"
#include "proto/graph/event.pb.h"

namespace rivulet {
namespace {

// Buckets of one width from the least value to the greatest; TensorBoard makes its own of them.
constexpr int kBuckets = 30;

void FillHistogram(std::span<const double> values, proto::HistogramProto& histogram) {
  const auto [least, greatest] = std::ranges::minmax(values);
  histogram.set_min(least);
  histogram.set_max(greatest);
  histogram.set_num(static_cast<double>(values.size()));
  const double width = (greatest - least) / kBuckets;
  const int buckets = width > 0 ? kBuckets : 1;
  std::vector<double> counts(static_cast<size_t>(buckets), 0.0);
  double sum = 0, squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
    const int bucket = width > 0 ? static_cast<int>(std::ceil((value - least) / width)) - 1 : 0;
    ++counts[static_cast<size_t>(std::clamp(bucket, 0, buckets - 1))];
  }
  histogram.set_sum(sum);
  histogram.set_sum_squares(squares);
  for (int bucket = 0; bucket < buckets; ++bucket) {
    histogram.add_bucket_limit(bucket + 1 == buckets ? greatest : least + width * (bucket + 1));
    histogram.add_bucket(counts[static_cast<size_t>(bucket)]);
  }
}

std::string EventFileName(const std::string& folder, double wall_time) {
  return fmt::format("{}/events.out.tfevents.{:010}.rivulet", folder, static_cast<int64_t>(wall_time));
}

std::string FirstRecord(double wall_time) {
  proto::Event event;
  event.set_wall_time(wall_time);
  event.set_file_version("brain.Event:2");
  return event.SerializeAsString();
}

std::string RecordOf(const SummaryEvent& step) {
  proto::Event event;
  event.set_wall_time(step.wall_time);
  event.set_step(step.step);
  for (const auto& [tag, value] : step.scalars) {
    proto::Summary::Value& written = *event.mutable_summary()->add_value();
    written.set_tag(tag);
    written.set_simple_value(static_cast<float>(value));
  }
  for (const auto& [tag, values] : step.histograms) {
    std::vector<double> finite;
    std::ranges::copy_if(values, std::back_inserter(finite), [](double value) { return std::isfinite(value); });
    if (finite.empty()) continue;
    proto::Summary::Value& written = *event.mutable_summary()->add_value();
    written.set_tag(tag);
    FillHistogram(finite, *written.mutable_histo());
  }
  return event.SerializeAsString();
}

struct EventFile {
  std::unique_ptr<NewFolder> made;  // outlives the writer in it
  std::string path;
  std::unique_ptr<RecordWriter> writer;
};

// A file with its first record written.
StatusOr<EventFile> CreateEventFile(FileSystem& fs, const std::string& folder, double wall_time) {
  RIVULET_ASSIGN_OR_RETURN(std::unique_ptr<NewFolder> made, NewFolder::Create(fs, folder));
  std::string path = EventFileName(folder, wall_time);
  RIVULET_ASSIGN_OR_RETURN(std::unique_ptr<RecordWriter> writer, RecordWriter::Create(fs, path));
  RIVULET_RETURN_IF_ERROR(writer->Append(FirstRecord(wall_time)));
  return EventFile{std::move(made), std::move(path), std::move(writer)};
}

}  // namespace

StatusOr<std::string> WriteGraphEvent(FileSystem& fs, const std::string& folder, std::string_view graph_def,
                                      double wall_time) {
  return WriteProfileEvents(fs, folder, graph_def, {}, wall_time);
}

StatusOr<std::string> WriteProfileEvents(FileSystem& fs, const std::string& folder, std::string_view graph_def,
                                         std::span<const StepMetadata> steps, double wall_time) {
  RIVULET_ASSIGN_OR_RETURN(const auto file, CreateEventFile(fs, folder, wall_time));
  const auto& [made, path, writer] = file;
  proto::Event event;
  event.set_wall_time(wall_time);
  event.set_graph_def(std::string(graph_def));
  RIVULET_RETURN_IF_ERROR(writer->Append(event.SerializeAsString()));
  for (const StepMetadata& step : steps) {
    event.set_step(step.step);
    event.mutable_tagged_run_metadata()->set_tag(step.tag);
    event.mutable_tagged_run_metadata()->set_run_metadata(step.run_metadata);
    RIVULET_RETURN_IF_ERROR(writer->Append(event.SerializeAsString()));
  }
  RIVULET_RETURN_IF_ERROR(writer->Finish());
  RIVULET_RETURN_IF_ERROR(writer->Publish());
  return path;
}

StatusOr<std::unique_ptr<SummaryWriter>> SummaryWriter::Create(FileSystem& fs, const std::string& folder,
                                                               double wall_time) {
  RIVULET_RETURN_IF_ERROR(fs.CreateFolders(folder));
  // A run that is resumed within the second it began in has a file there already, and TensorBoard reads files in the
  // order of their names.
  double named = wall_time;
  while (fs.Exists(EventFileName(folder, named))) named += 1;
  RIVULET_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, fs.Create(EventFileName(folder, named)));
  std::string record;
  AppendRecordFrame(FirstRecord(wall_time), record);
  RIVULET_RETURN_IF_ERROR(file->Append(record));
  return std::unique_ptr<SummaryWriter>(new SummaryWriter(std::move(file)));
}

Status SummaryWriter::Add(const SummaryEvent& event) {
  std::string record;
  AppendRecordFrame(RecordOf(event), record);
  return file_->Append(record);
}

StatusOr<std::string> WriteSummaryEvents(FileSystem& fs, const std::string& folder,
                                         std::span<const SummaryEvent> events) {
  RIVULET_ASSIGN_OR_RETURN(const auto file, CreateEventFile(fs, folder, events.empty() ? 0 : events.front().wall_time));
  const auto& [made, path, writer] = file;
  for (const SummaryEvent& step : events) RIVULET_RETURN_IF_ERROR(writer->Append(RecordOf(step)));
  RIVULET_RETURN_IF_ERROR(writer->Finish());
  RIVULET_RETURN_IF_ERROR(writer->Publish());
  return path;
}

}  // namespace rivulet
