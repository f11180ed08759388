// Runs of other programs, read from their TensorBoard event files.
#pragma once

#include <string>
#include <vector>

#include "coordinator/history/rows.h"
#include "engine/base/status.h"

namespace rivulet {

struct EventRun {
  RunRow run;
  std::vector<RunKeyRow> keys;     // as shown on TensorBoard's HParams page
  std::vector<MetricRow> metrics;  // a row per tag and step; of repeated steps the later value
  int64_t not_finite = 0;          // numbers that were left out, because they are NaN or infinite
  // Messages about files with numbers but without valid times: the run's times come from the other files.
  std::vector<std::string> without_time;
};

// Whether `path` is a folder or, by its name, an event file.
bool MayHoldEventRuns(const std::string& path);

// For a file, its folder's run; for a folder, a run for each folder in it with event files, as in
// TensorBoard, named by its place ("lr-0.1/train" is the run "lr-0.1-train"). A run's times are those of its
// events, or else of its file. NOT_FOUND: there are no event files, or none with a number. DATA_LOSS: one is
// damaged.
StatusOr<std::vector<EventRun>> ReadEventRuns(const std::string& path);

}  // namespace rivulet
