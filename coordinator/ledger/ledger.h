// Conversion of a closed attempt's records to rows for the history and messages for its clients. Pure functions of
// values, without clock, lock, file or database, so that a round's output can be tested without running one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/history/history.h"
#include "coordinator/ledger/evaluation.h"
#include "coordinator/rounds/protocol.h"
#include "engine/base/sha256.h"
#include "federated/evaluation/evaluator.h"
#include "federated/tasks/task_result.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// Of a run whose devices take virtual time (coordinator/rounds/fleet.h): when a version was made, in seconds since the
// run began. A metric of scope "federated".
inline constexpr char kVirtualSeconds[] = "virtual/seconds";
// Of a version for which a device trained: as how many lanes at once, at most (docs/internals/gpu.md). A metric of the
// same scope.
inline constexpr char kDeviceLanes[] = "device/lanes";
// Of a version in which updates are whose factors a device rounded to TF32: how many of them. A metric of the same
// scope.
inline constexpr char kDeviceTf32[] = "device/tf32";
// Of a version whose clip moves (adaptive clipping): the clip of its updates. A metric of the same scope.
inline constexpr char kClipOfRound[] = "privacy/clip";

// What is known of one task beyond its lease. Times are of the coordinator's clock. Of a task whose update was not
// folded the result has no columns of client and site, and until there is a row none of seconds that follow from the
// times.
struct TaskFacts : TaskResult {
  TimeMs offered = 0;
  std::optional<TimeMs> taken, upload_began, uploaded;
  Measures measures;        // of one that measured a version; of a training what graphs declared ("train/cluster")
  bool left_state = false;  // what it proposed as its client's state came here
  bool operator==(const TaskFacts&) const = default;
};

// An attempt at a round, or a cohort that measured a version, of which nothing will change any more.
struct ClosedAttempt {
  std::string run_id;
  TaskKind kind = TaskKind::kTrain;
  int64_t round = 0;  // kEvaluate: the version that was measured
  int64_t number = 1;
  int64_t started_unix_ms = 0;
  TimeMs started = 0, closed = 0;
  struct ClosedTask {
    Lease lease;
    TaskFacts facts;
    bool operator==(const ClosedTask&) const = default;
  };
  std::vector<ClosedTask> tasks;  // in the order drawn
};

// What an attempt of a private run has noised, and what the run has spent with it (RoundResult).
struct RoundSpend {
  double noise_multiplier = 0, sampling_rate = 1, delta = 0, epsilon = 0, participant_epsilon = 0;
};

// What became of it.
struct AttemptEnd {
  std::string status;  // committed, abandoned, failed; of a cohort that measured a version: measured, abandoned
  std::string reason;  // "" of a committed one
  int64_t finished_unix_ms = 0;
  double aggregate_seconds = 0, evaluate_seconds = 0;
  Measures federated;  // of a version that was measured: over all its clients together
  // Of a committed one.
  std::optional<Digest> model_digest;
  std::map<std::string, Measure> central;  // "test/accuracy", "test/loss"; empty when not evaluated
  std::optional<double> virtual_seconds;   // since the run began, where its devices take time
  std::vector<std::string> warnings;       // of the aggregation, a sentence each
  std::string ends_early;                  // why no round follows, though more were planned; "": one does, or none was
  bool finishes_run = false;
  std::optional<RoundSpend> spend;  // of a training in a private run
  std::optional<double> clip;       // of a training whose clip moves from version to version
};

// The attempt's own row. No sum depends on the order of tasks.
RoundRow RoundOf(const ClosedAttempt& attempt, const AttemptEnd& end);

// All its rows, its tasks in the order of (client_id, ordinal). An attempt that is not committed has no folded task:
// its folded ones are dropped with it, as their updates are in no model. Who came too late is told of by number, and of
// all others that came to nothing each. A measured version has the measures of each client and of all (scope
// "federated"), with their distribution (evaluation.h); of a version that was trained the measures of each client,
// those of its last task where it had several. Losses are no metrics here: tasks and the round have them, and the
// history's view of metrics takes them from there. What files and earlier rows have to do with it (`model`,
// `forget_models`, `seen`) is left to the writer.
AttemptRecord RowsOf(const ClosedAttempt& attempt, const AttemptEnd& end);
// The same where RoundOf has been asked before.
AttemptRecord RowsOf(const ClosedAttempt& attempt, const AttemptEnd& end, RoundRow round);
// Its events alone: those of RowsOf, for whoever tells them before there are rows.
std::vector<EventRow> EventsOf(const ClosedAttempt& attempt, const AttemptEnd& end);

// Each task's last word beside its client's name, in the order drawn, where clients poll for themselves: what is told
// to one that lost the answer. A folded task of an attempt that was not committed is dropped, and told why.
std::vector<std::pair<std::string, TaskOutcome>> OutcomesOf(const ClosedAttempt& attempt, const AttemptEnd& end);
// The same beside their sites' names, where sites poll for clients.
std::vector<std::pair<std::string, TaskOutcome>> OutcomesOfSites(const ClosedAttempt& attempt, const AttemptEnd& end);

}  // namespace rivulet
