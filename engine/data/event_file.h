// TensorBoard event files: TFRecord files of Event messages, the first of which names the version.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/file_system.h"
#include "engine/base/status.h"

namespace rivulet {

// Writes "FOLDER/events.out.tfevents.SECONDS.rivulet" (the folder is made) with one graph, which TensorBoard's Graphs
// page draws: `tensorboard --logdir FOLDER`. `graph_def` is a serialised GraphDef. Returns the file's path.
StatusOr<std::string> WriteGraphEvent(FileSystem& fs, const std::string& folder, std::string_view graph_def,
                                      double wall_time);

// What one step cost: a serialised RunMetadata under a name that TensorBoard lists beside the graph.
struct StepMetadata {
  int64_t step = 0;
  std::string tag;
  std::string run_metadata;
};
// The same file with the graph and what its steps cost.
StatusOr<std::string> WriteProfileEvents(FileSystem& fs, const std::string& folder, std::string_view graph_def,
                                         std::span<const StepMetadata> steps, double wall_time);

}  // namespace rivulet
