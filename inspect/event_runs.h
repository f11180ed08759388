// Runs of other programs, read from their TensorBoard event files.
#pragma once

#include <string>
#include <vector>

#include "coordinator/history/rows.h"
#include "engine/base/status.h"

namespace rivulet {

struct EventRun {
  RunRow run;
  std::vector<RunKeyRow> keys;     // what TensorBoard's HParams page knows of it
  std::vector<MetricRow> metrics;  // a row per tag and step; of a step that was told twice, the later word
  int64_t not_finite = 0;          // numbers that were left out, since they are none
  // Of each file with numbers whose time is none, a sentence: they are kept, and the run's times go by the others.
  std::vector<std::string> without_time;
};

// Whether `path` is a folder or an event file, by its name.
bool MayHoldEventRuns(const std::string& path);

// Of a file, its folder's run; of a folder, a run for each folder in it that holds event files, as TensorBoard has
// them: named by its place ("lr-0.1/train" is the run "lr-0.1-train"). A run's times are those of its events, or of its
// file where they have none.
// NOT_FOUND: there are no event files, or none with a number. DATA_LOSS: one is damaged.
StatusOr<std::vector<EventRun>> ReadEventRuns(const std::string& path);

}  // namespace rivulet
