#include "engine/data/event_file.h"

#include <cstdint>

#include "engine/data/tfrecord.h"
#include "proto/graph/event.pb.h"

namespace rivulet {

StatusOr<std::string> WriteGraphEvent(FileSystem& fs, const std::string& folder, std::string_view graph_def,
                                      double wall_time) {
  return WriteProfileEvents(fs, folder, graph_def, {}, wall_time);
}

StatusOr<std::string> WriteProfileEvents(FileSystem& fs, const std::string& folder, std::string_view graph_def,
                                         std::span<const StepMetadata> steps, double wall_time) {
  RIVULET_RETURN_IF_ERROR(fs.CreateFolders(folder));
  const std::string path =
      fmt::format("{}/events.out.tfevents.{:010}.rivulet", folder, static_cast<int64_t>(wall_time));
  RIVULET_ASSIGN_OR_RETURN(const std::unique_ptr<RecordWriter> writer, RecordWriter::Create(fs, path));
  proto::Event event;
  event.set_wall_time(wall_time);
  event.set_file_version("brain.Event:2");
  RIVULET_RETURN_IF_ERROR(writer->Append(event.SerializeAsString()));
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

}  // namespace rivulet
