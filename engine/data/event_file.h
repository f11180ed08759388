// TensorBoard event files: TFRecord files of Event messages, the first of which has the version.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/file_system.h"
#include "engine/base/status.h"

namespace rivulet {

// Writes "FOLDER/events.out.tfevents.SECONDS.rivulet" (creates the folder) with one graph for TensorBoard's Graphs
// page: `tensorboard --logdir FOLDER`. `graph_def` is a serialised GraphDef. Returns the file's path.
StatusOr<std::string> WriteGraphEvent(FileSystem& fs, const std::string& folder, std::string_view graph_def,
                                      double wall_time);

// Cost of one step: a serialised RunMetadata under a name that TensorBoard lists beside the graph.
struct StepMetadata {
  int64_t step = 0;
  std::string tag;
  std::string run_metadata;
};
// The same file with the graph and the cost of its steps.
StatusOr<std::string> WriteProfileEvents(FileSystem& fs, const std::string& folder, std::string_view graph_def,
                                         std::span<const StepMetadata> steps, double wall_time);

// A run's settings for TensorBoard's HParams page, which shows them beside all of the run's scalars.
using HyperParameter = std::variant<bool, double, std::string>;
enum class SummaryEnd : uint8_t { kSuccess = 1, kFailure = 2, kRunning = 3 };  // values of that page

struct SummaryImage {
  std::string tag;
  int64_t width = 0, height = 0;  // pixels
  std::string png;                // contents of a PNG file
};

// Data of one step: numbers, distributions and images, under tags such as "test/accuracy". Any step may also have data
// of the whole run: its graph, settings and end.
struct SummaryEvent {
  int64_t step = 0;
  double wall_time = 0;
  std::vector<std::pair<std::string, double>> scalars;
  std::vector<std::pair<std::string, std::vector<double>>> histograms = {};  // values that are not finite are omitted
  std::vector<SummaryImage> images = {};
  std::string graph_def = {};                                                // serialised; "": none
  std::vector<std::pair<std::string, HyperParameter>> hyperparameters = {};  // empty: none
  std::optional<SummaryEnd> end = {};
};
// Writes a file of such steps during a run. The file has its final name from the start, and a step is in it when Add
// returns, so that concurrent readers see complete records. Existing files are kept: a second file of one second is
// named after the next second. Not thread-safe. Errors are the file system's.
class SummaryWriter {
 public:
  static StatusOr<std::unique_ptr<SummaryWriter>> Create(FileSystem& fs, const std::string& folder, double wall_time);
  Status Add(const SummaryEvent& event);

 private:
  explicit SummaryWriter(std::unique_ptr<WritableFile> file) : file_(std::move(file)) {}

  const std::unique_ptr<WritableFile> file_;
};
// Writes a file of the steps that `next` returns until it returns nullopt, named as above. TensorBoard reads scalars as
// floats. The first error of `next` is returned, and no file is left.
using NextSummary = std::function<StatusOr<std::optional<SummaryEvent>>()>;
StatusOr<std::string> WriteSummaryEvents(FileSystem& fs, const std::string& folder, const NextSummary& next);

// One number of an event file.
struct ScalarEvent {
  std::string tag;
  int64_t step = 0;
  double wall_time = 0;  // seconds since 1970
  double value = 0;
};
// Numbers of an event file, in file order: TensorFlow 1's simple values and the scalar tensors of TensorFlow 2 and
// PyTorch, and from TensorBoard's HParams page the run's settings and its end. Histograms, images, texts and graphs are
// skipped.
struct EventFileNumbers {
  std::vector<ScalarEvent> scalars;
  std::vector<std::pair<std::string, HyperParameter>> hyperparameters;
  std::optional<SummaryEnd> end;
  double first_time = 0, last_time = 0;  // of all events; 0: no events
};
// Errors as in RecordReader, and DATA_LOSS: a record is not an event. A truncated last record, as left by a killed
// process, ends the file.
StatusOr<EventFileNumbers> ReadEventFile(const std::string& path);

}  // namespace rivulet
