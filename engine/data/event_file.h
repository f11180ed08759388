// TensorBoard event files: TFRecord files of Event messages, the first of which names the version.
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

// What a run was told, for TensorBoard's HParams page, which sets it beside all of the run's scalars.
using HyperParameter = std::variant<bool, double, std::string>;
enum class SummaryEnd : uint8_t { kSuccess = 1, kFailure = 2, kRunning = 3 };  // as that page has them

struct SummaryImage {
  std::string tag;
  int64_t width = 0, height = 0;  // pixels
  std::string png;                // the bytes of its file
};

// What is shown of one step: numbers, how values are spread, and pictures, under tags such as "test/accuracy". Of a run
// as a whole, in any of its steps: its graph, what it was told, how it ended.
struct SummaryEvent {
  int64_t step = 0;
  double wall_time = 0;
  std::vector<std::pair<std::string, double>> scalars;
  std::vector<std::pair<std::string, std::vector<double>>> histograms = {};  // what is not finite is left out
  std::vector<SummaryImage> images = {};
  std::string graph_def = {};                                                // serialised; "": none
  std::vector<std::pair<std::string, HyperParameter>> hyperparameters = {};  // empty: none are told
  std::optional<SummaryEnd> end = {};
};
// A file of such steps while they happen: under its own name from the start, and each step in it when Add returns, so
// that whoever reads it meanwhile sees whole records. Files that are there stay: a second one of the same second is
// named as of the next. Not thread-safe. Errors are the file system's.
class SummaryWriter {
 public:
  static StatusOr<std::unique_ptr<SummaryWriter>> Create(FileSystem& fs, const std::string& folder, double wall_time);
  Status Add(const SummaryEvent& event);

 private:
  explicit SummaryWriter(std::unique_ptr<WritableFile> file) : file_(std::move(file)) {}

  const std::unique_ptr<WritableFile> file_;
};
// A file of such steps, named as the others: those that `next` gives, one after another, until it gives none.
// TensorBoard takes scalars as floats. The first error of `next` is returned, and nothing is left.
using NextSummary = std::function<StatusOr<std::optional<SummaryEvent>>()>;
StatusOr<std::string> WriteSummaryEvents(FileSystem& fs, const std::string& folder, const NextSummary& next);

// One number of an event file.
struct ScalarEvent {
  std::string tag;
  int64_t step = 0;
  double wall_time = 0;  // seconds since 1970
  double value = 0;
};
// What an event file tells in numbers, in the order in which it was written: TensorFlow 1's simple values and the
// scalar tensors of TensorFlow 2 and PyTorch, and of TensorBoard's HParams page what the run was told and how it ended.
// Histograms, pictures, texts and graphs are passed over.
struct EventFileNumbers {
  std::vector<ScalarEvent> scalars;
  std::vector<std::pair<std::string, HyperParameter>> hyperparameters;
  std::optional<SummaryEnd> end;
  double first_time = 0, last_time = 0;  // of all events; 0: there is none
};
// Errors are RecordReader's, and DATA_LOSS of a record that is no event. A last record that is cut off, as a process
// that was killed leaves it, ends the file.
StatusOr<EventFileNumbers> ReadEventFile(const std::string& path);

}  // namespace rivulet
