// An attempt at a round, or a cohort that measures a version: its open tasks, and the sum of their updates.
//
// Uploads and the commit share an attempt's records, so the next attempt begins without waiting for them. The lock of
// Rounds guards the records of an open attempt; those of a closed one are only read.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "coordinator/intake/round_accumulator.h"
#include "coordinator/ledger/ledger.h"
#include "coordinator/rounds/protocol.h"
#include "coordinator/secure_round.h"

namespace rivulet {

// One task's record while it is open.
struct TaskEntry : TaskFacts {
  std::shared_ptr<std::atomic<int64_t>> downloaded;  // bytes_down; null: none, as for tasks of sites of this process
  int64_t base_version = 0;
  uint64_t gather = 0;  // as in Offer
};

struct Attempt {
  TaskKind kind = TaskKind::kTrain;
  int64_t round = 0;  // kEvaluate: the measured version
  int64_t number = 1;
  int64_t started_unix_ms = 0;
  TimeMs started = 0, closed = 0;
  int64_t traced_from = 0;   // ProfileNanos
  int64_t traced_until = 0;  // when it was committed or abandoned; the next may begin before this one is reported
  std::unordered_map<TaskId, TaskEntry> tasks;
  std::map<uint64_t, int64_t> gathers;  // partial sums that its tasks may share, and their base version
  int64_t told_progress = 0;            // updates that on_progress has reported
  std::set<std::string> arriving;       // partial sums and states under way, by their keys in Intake
  // States that its tasks' sites may fetch, by the blob's digest: the task that starts from it and its proposing task.
  struct KeptState {
    TaskId task, state_of;
  };
  std::map<std::string, KeptState> states;
  std::unique_ptr<RoundAccumulator> accumulator;
  std::unique_ptr<SecureRound> secure;  // if its tasks' updates are summed in steps; else null
  // Inputs of steps that its clients may fetch, by the blob's digest and the task. Several tasks may have the same
  // bytes.
  std::map<std::pair<std::string, TaskId>, std::shared_ptr<const std::string>> step_inputs;
  bool open = true;  // false: its records belong to its job
};

// A closed attempt, queued for the run's thread.
struct AttemptJob {
  std::variant<Commit, Abandon, Evaluated> action;
  std::shared_ptr<Attempt> attempt;
  std::vector<Lease> leases;
};

}  // namespace rivulet
