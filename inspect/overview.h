// Overview of a run: its most important rows, read at once.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/history/history.h"
#include "coordinator/history/questions.h"
#include "inspect/configuration.h"

namespace rivulet {

// A metric over the rounds that have it.
struct Curve {
  std::string name;                                // "test/accuracy"
  std::vector<std::pair<int64_t, double>> points;  // round and value, by round; never empty
  bool lower_is_better = false;                    // for a loss or an error
  // Distribution of its newest value over the clients that measured it, by figure ("p10"); empty: there is none.
  std::map<std::string, double> spread = {};
  // The best of its points, the earliest of equals.
  const std::pair<int64_t, double>& best() const;
};

// Division of the seconds from a run's start to its end. `rest` is the unmeasured part.
struct TimeSplit {
  double total = 0;     // from the start to the end of the run, or to its last round
  double training = 0;  // of attempts, from the draw to the last update
  double aggregating = 0, evaluating = 0;
  double rest = 0;  // between attempts: waits for clients, writes, interruption
  // Mean times of the newest rounds' tasks, over those with such times.
  std::optional<double> task_waiting, task_training, task_uploading;
};

struct RunOverview {
  RunRow run;                 // with its present status (run_status.h)
  std::string first_reason;   // why it failed, or the reason of its last abandoned attempt; ""
  int64_t rounds_wanted = 0;  // 0: unknown
  std::vector<RoundRow> attempts;
  std::vector<Curve> curves;
  std::optional<double> virtual_seconds;  // for a simulation whose devices take time: at its newest version
  int64_t lanes = 0;                      // largest number of lanes of a device that trained; 0: none did
  bool tf32 = false;                      // with factors rounded to TF32
  std::vector<ModelRow> models;
  std::vector<TagRow> tags;
  std::vector<NoteRow> notes;
  std::vector<ClientReliabilityRow> clients;
  int64_t failing = 0;                      // clients with a task that was refused, dropped or failed
  std::vector<ClientFailuresRow> failures;  // of the twenty that failed most, most first
  ConfigKeys keys;                          // those that matter, except the run's name
  TimeSplit time;
  int64_t bytes_down = 0, bytes_up = 0;

  int64_t committed() const;
  const Curve* curve(std::string_view name) const;  // null: there is none
  const ModelRow* newest_model() const;             // with a file, else null
};

// `run` as in History::ResolveRun, with its errors. kWithoutClients omits the parts of a large run that take longest to
// read: clients, failures, and tasks' mean times.
enum class OverviewParts { kAll, kWithoutClients };
StatusOr<RunOverview> LoadOverview(History& history, const std::string& run, OverviewParts parts = OverviewParts::kAll);
// The curves alone: of scope central and federated.
StatusOr<std::vector<Curve>> LoadCurves(History& history, const std::string& run_id);

// The most important of its curves, without reading the others (FirstMetric); nullopt: it has none.
StatusOr<std::optional<Curve>> LoadFirstCurve(History& history, const std::string& run_id);

}  // namespace rivulet
