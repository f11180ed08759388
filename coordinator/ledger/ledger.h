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

// With devices on virtual time (coordinator/rounds/fleet.h): when a version was made, in seconds since the run began. A
// metric of scope "federated".
inline constexpr char kVirtualSeconds[] = "virtual/seconds";
// For a version with training on a device: the largest number of lanes at once (docs/internals/gpu.md). A metric of the
// same scope.
inline constexpr char kDeviceLanes[] = "device/lanes";
// For a version with updates that a device trained with TF32 rounding of factors: their number. A metric of the same
// scope.
inline constexpr char kDeviceTf32[] = "device/tf32";
// With adaptive clipping: the clip of a version's updates. A metric of the same scope.
inline constexpr char kClipOfRound[] = "privacy/clip";

// Facts of one task beyond its lease. Times are on the coordinator's clock. If its update was not aggregated,
// the result has no client and site columns. Until there is a row, it has no seconds that follow from the
// times.
struct TaskFacts : TaskResult {
  TimeMs offered = 0;
  std::optional<TimeMs> taken, upload_began, uploaded;
  Measures measures;        // of an evaluation; of a training the values declared by graphs ("train/cluster")
  bool left_state = false;  // its proposed client state was received
  bool operator==(const TaskFacts&) const = default;
};

// A closed attempt at a round, or a closed evaluation cohort; its records change no more.
struct ClosedAttempt {
  std::string run_id;
  TaskKind kind = TaskKind::kTrain;
  int64_t round = 0;  // kEvaluate: the measured version
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

// The noise of a private run's attempt, and the run's spend with it (RoundResult).
struct RoundSpend {
  double noise_multiplier = 0, sampling_rate = 1, delta = 0, epsilon = 0, participant_epsilon = 0;
};

// Outcome of an attempt.
struct AttemptEnd {
  std::string status;  // committed, abandoned, failed; for an evaluation: measured, abandoned
  std::string reason;  // "" if committed
  int64_t finished_unix_ms = 0;
  double aggregate_seconds = 0, evaluate_seconds = 0;
  Measures federated;  // of a measured version: over all its clients together
  // Only if committed.
  std::optional<Digest> model_digest;
  std::map<std::string, Measure> central;  // "test/accuracy", "test/loss"; empty when not evaluated
  std::optional<double> virtual_seconds;   // since the run began, if its devices take virtual time
  std::vector<std::string> warnings;       // of the aggregation, a sentence each
  std::string ends_early;                  // why no round follows, though more were planned; "": one does, or none was
  bool finishes_run = false;
  std::optional<RoundSpend> spend;  // of a training in a private run
  std::optional<double> clip;       // of a training with adaptive clipping
};

// The attempt's own row. No sum depends on the order of tasks.
RoundRow RoundOf(const ClosedAttempt& attempt, const AttemptEnd& end);

// All rows of the attempt, with its tasks in the order of (client_id, ordinal). If it is not committed, its folded
// tasks count as dropped, because their updates are in no model. Its events give late clients as a number, and
// each other failed task in full. An evaluation has the measures of each client and of all (scope "federated"),
// with their distribution (evaluation.h). A training has the measures that each client declared, those of its last
// task if it had several. Losses are no metrics here: tasks and the round have them, and the history's view of
// metrics reads them there. The writer adds fields about files and earlier rows (`model`, `forget_models`,
// `seen`).
AttemptRecord RowsOf(const ClosedAttempt& attempt, const AttemptEnd& end);
// The same with a result of RoundOf.
AttemptRecord RowsOf(const ClosedAttempt& attempt, const AttemptEnd& end, RoundRow round);
// Its events alone, as in RowsOf, for notifications before there are rows.
std::vector<EventRow> EventsOf(const ClosedAttempt& attempt, const AttemptEnd& end);

// Each task's outcome with its client's name, in the order drawn, for clients that poll directly: the answer if they
// lost the first one. A folded task of an attempt that was not committed is dropped, with the reason.
std::vector<std::pair<std::string, TaskOutcome>> OutcomesOf(const ClosedAttempt& attempt, const AttemptEnd& end);
// The same with their sites' names, for clients that sites poll for.
std::vector<std::pair<std::string, TaskOutcome>> OutcomesOfSites(const ClosedAttempt& attempt, const AttemptEnd& end);

}  // namespace rivulet
