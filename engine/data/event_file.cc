#include "engine/data/event_file.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/data/tfrecord.h"
#include "engine/io/new_folder.h"
#include "proto/graph/event.pb.h"
#include "proto/graph/hparams.pb.h"

namespace rivulet {
namespace {

// Buckets of equal width from the least value to the greatest; TensorBoard rebins them.
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

// A dummy value for a TensorBoard page that reads `data`. TensorBoard requires a tensor in it.
void AddPluginValue(proto::Summary& summary, const char* tag, const proto::HParamsPluginData& data) {
  proto::Summary::Value& written = *summary.add_value();
  written.set_tag(tag);
  written.mutable_metadata()->mutable_plugin_data()->set_plugin_name("hparams");
  written.mutable_metadata()->mutable_plugin_data()->set_content(data.SerializeAsString());
  written.mutable_tensor()->set_dtype(proto::DT_FLOAT);
  written.mutable_tensor()->mutable_tensor_shape()->add_dim();
}

void AddSession(const SummaryEvent& step, proto::Summary& summary) {
  if (!step.hyperparameters.empty()) {
    proto::HParamsPluginData data;
    data.mutable_session_start_info()->set_start_time_secs(step.wall_time);
    for (const auto& [key, value] : step.hyperparameters) {
      proto::HParamsSessionStart::Entry& entry = *data.mutable_session_start_info()->add_hparams();
      entry.set_key(key);
      if (const auto* truth = std::get_if<bool>(&value)) entry.mutable_value()->set_bool_value(*truth);
      if (const auto* number = std::get_if<double>(&value)) entry.mutable_value()->set_number_value(*number);
      if (const auto* text = std::get_if<std::string>(&value)) entry.mutable_value()->set_string_value(*text);
    }
    AddPluginValue(summary, "_hparams_/session_start_info", data);
  }
  if (step.end) {
    proto::HParamsPluginData data;
    data.mutable_session_end_info()->set_status(static_cast<int32_t>(*step.end));
    data.mutable_session_end_info()->set_end_time_secs(step.wall_time);
    AddPluginValue(summary, "_hparams_/session_end_info", data);
  }
}

void AddValues(const SummaryEvent& step, proto::Summary& summary) {
  for (const auto& [tag, value] : step.scalars) {
    proto::Summary::Value& written = *summary.add_value();
    written.set_tag(tag);
    written.set_simple_value(static_cast<float>(value));
  }
  for (const auto& [tag, values] : step.histograms) {
    std::vector<double> finite;
    std::ranges::copy_if(values, std::back_inserter(finite), [](double value) { return std::isfinite(value); });
    if (finite.empty()) continue;
    proto::Summary::Value& written = *summary.add_value();
    written.set_tag(tag);
    FillHistogram(finite, *written.mutable_histo());
  }
  for (const SummaryImage& image : step.images) {
    proto::Summary::Value& written = *summary.add_value();
    written.set_tag(image.tag);
    written.mutable_image()->set_width(static_cast<int32_t>(image.width));
    written.mutable_image()->set_height(static_cast<int32_t>(image.height));
    written.mutable_image()->set_colorspace(3);
    written.mutable_image()->set_encoded_image_string(image.png);
  }
}

// A record for its graph, if any, and one for everything else; none for a step without data.
std::vector<std::string> RecordsOf(const SummaryEvent& step) {
  std::vector<std::string> records;
  proto::Event event;
  event.set_wall_time(step.wall_time);
  event.set_step(step.step);
  if (!step.graph_def.empty()) {
    event.set_graph_def(step.graph_def);
    records.push_back(event.SerializeAsString());
  }
  AddSession(step, *event.mutable_summary());
  AddValues(step, *event.mutable_summary());
  if (event.summary().value_size() > 0) records.push_back(event.SerializeAsString());
  return records;
}

struct EventFile {
  std::unique_ptr<NewFolder> made;  // outlives the writer in it
  std::string path;
  std::unique_ptr<RecordWriter> writer;
};

// Creates a file with its first record.
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
  // A run that is resumed within the second of its start already has a file of this name, and TensorBoard reads files
  // in the order of their names.
  double named = wall_time;
  while (fs.Exists(EventFileName(folder, named))) named += 1;
  RIVULET_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, fs.Create(EventFileName(folder, named)));
  std::string record;
  AppendRecordFrame(FirstRecord(wall_time), record);
  RIVULET_RETURN_IF_ERROR(file->Append(record));
  return std::unique_ptr<SummaryWriter>(new SummaryWriter(std::move(file)));
}

Status SummaryWriter::Add(const SummaryEvent& event) {
  std::string framed;
  for (const std::string& record : RecordsOf(event)) AppendRecordFrame(record, framed);
  return file_->Append(framed);
}

StatusOr<std::string> WriteSummaryEvents(FileSystem& fs, const std::string& folder, const NextSummary& next) {
  RIVULET_ASSIGN_OR_RETURN(std::optional<SummaryEvent> step, next());
  RIVULET_ASSIGN_OR_RETURN(const auto file, CreateEventFile(fs, folder, step ? step->wall_time : 0));
  const auto& [made, path, writer] = file;
  while (step) {
    for (const std::string& record : RecordsOf(*step)) RIVULET_RETURN_IF_ERROR(writer->Append(record));
    RIVULET_ASSIGN_OR_RETURN(step, next());
  }
  RIVULET_RETURN_IF_ERROR(writer->Finish());
  RIVULET_RETURN_IF_ERROR(writer->Publish());
  return path;
}

}  // namespace rivulet
