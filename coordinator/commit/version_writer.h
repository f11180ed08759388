// Background writer that makes the results of attempts durable, while the run continues.
//
//   Add ──→ pending ──→ written        run.durability "round":  at once, and a run gets at most three versions ahead
//                                                    "second": a second after the oldest that waits, or when much waits
//                                                    "end":    when much waits, or at Flush
//
// All waiting attempts are written together. First comes the newest version's file (every one's if all models are
// kept), synced and renamed. Then follows one transaction of all rows and the newest snapshot of the rounds, and then
// the removal of unused files. A crash may interrupt this order anywhere. A file comes before the row that names it: a
// row without its file would make the run impossible to resume, while a file without a row is only removed. The row
// comes before an old file's removal for the same reason.
//
// Kept files: the two newest that rows name, and the base versions of tasks in the newest snapshot. The version in the
// database without its log is also kept, so that a lost log costs rounds and not the run.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/commit/record_maker.h"
#include "coordinator/history/history.h"
#include "coordinator/ledger/ledger.h"
#include "coordinator/ledger/packed_tasks.h"
#include "coordinator/model_store/model_store.h"
#include "engine/base/clock.h"
#include "engine/base/executor.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"

namespace rivulet {

class Tracer;  // engine/profile/tracer.h

enum class Durability : uint8_t { kRound, kSecond, kEnd };
// From "round", "second" or "end", as in the scenario.
Durability DurabilityOf(std::string_view name);

// A closed attempt and its results.
struct PendingAttempt {
  ClosedAttempt attempt;
  PackedTasks packed;  // its tasks, if only their rows still need them: `attempt` has none then
  AttemptEnd end;
  std::optional<RoundRow> row;                        // RoundOf them; nullopt: not computed yet
  std::vector<std::pair<std::string, int64_t>> seen;  // client_id, milliseconds since 1970 UTC
  std::optional<ServedVersion> version;               // of a committed one
  std::string snapshot;                               // the state of the rounds after it, for a restart; "": none
  std::vector<int64_t> needed;                        // earlier versions that open tasks of the snapshot start from
  // Of a committed attempt: the contents of its record, and the record once its row is durable.
  FoldedUpdates updates = {};
  std::optional<records::RecordedPrivacy> privacy = std::nullopt;
  std::optional<RecordRow> record = std::nullopt;
};

// A version's worth by its evaluation on the test set, where more is better: its accuracy, or else its negated loss;
// nullopt if it was not evaluated.
std::optional<double> WorthOf(const std::map<std::string, Measure>& central);

// The name of the newest snapshot among a run's blobs.
inline constexpr char kSnapshotBlob[] = "rounds";

// Writer of attempts' results. Thread-safe. Calls that write do so on their own thread unless another thread is
// writing, so they do not depend on the executor's thread.
class VersionWriter {
 public:
  struct Options {
    Durability durability = Durability::kRound;
    bool keep_all_models = false;
    bool keep_best_model = false;  // that of the greatest worth, besides the newest; the first of equals
    std::map<int64_t, double>
        worths;  // worths of the written versions, as in WorthOf; one of those that have a file may be the best
    int64_t most_pending_bytes = 64 << 20;  // of rows and of models to be kept; beyond it all is written at once
    // Receives attempts that are durable now, in the order of Add, on the writing thread; null: none.
    std::function<void(std::span<const PendingAttempt>)> on_written;
    // A reader has kept the log from restarting for a minute, and later for twice as long each time: it grows by all
    // that is written meanwhile. Null: no handler.
    std::function<void(int64_t seconds, int64_t log_bytes)> on_log_held;
    // Called once, on the writing thread: nothing more is written, and the run fails.
    std::function<void(const Status&)> on_failed;
    Tracer* tracer = nullptr;
    RecordMaker* records = nullptr;  // of the run's versions; null: none are made. Must outlive the writer
  };
  // `models`: the rows of the run's models in the history; `last`: the version from which the run resumes. History and
  // store must outlive the writer; meanwhile only const members of the store may be called.
  VersionWriter(History& history, ModelStore& store, std::unique_ptr<Executor> executor, Clock& clock, Options options,
                std::span<const ModelRow> models, int64_t last);
  // Running jobs of the executor finish; all other pending attempts are lost.
  ~VersionWriter() = default;

  // Adds an attempt, in the order of rounds and attempts. Waits while too much is pending: under "round" three
  // versions, otherwise twice most_pending_bytes.
  void Add(PendingAttempt attempt);
  // Writes all pending attempts, and checkpoints the log into the database's file. OK: all of them are durable.
  Status Flush();

 private:
  struct Batch {
    std::vector<PendingAttempt> attempts;
    int64_t bytes = 0, versions = 0;
  };
  struct BestVersion {
    int64_t round;
    double worth;
  };
  // `best`, or the version of `pending` if that is better.
  std::optional<BestVersion> BetterOf(const std::optional<BestVersion>& best, const PendingAttempt& pending) const;
  bool TooMuch() const REQUIRES(mutex_);
  void WriteIfDue();
  void WriteNow() REQUIRES(mutex_);  // frees mutex_ while it writes
  Status Write(std::span<PendingAttempt> attempts);
  Status Commit(std::span<PendingAttempt> attempts);
  void BringOver();
  void PlaceFile(const CheckpointProgress& now);
  void TellOfReader(const CheckpointProgress& now);
  void RemoveFiles();

  History& history_;
  ModelStore& store_;
  Clock& clock_;
  const Options options_;

  Mutex mutex_;
  CondVar changed_;
  Batch pending_ GUARDED_BY(mutex_);
  TimeMs oldest_ GUARDED_BY(mutex_) = 0;  // when the first pending attempt was added
  int64_t writing_versions_ GUARDED_BY(mutex_) = 0, writing_bytes_ GUARDED_BY(mutex_) = 0;
  bool writing_ GUARDED_BY(mutex_) = false;
  Status failure_ GUARDED_BY(mutex_);
  std::optional<BestVersion> best_ GUARDED_BY(mutex_);  // of all that were added

  // Used by the thread that has set writing_.
  std::set<int64_t> named_;   // rounds whose row has a path
  std::set<int64_t> needed_;  // by the newest snapshot
  std::set<int64_t> files_;   // rounds with an existing file
  int64_t newest_;            // with a row
  std::optional<BestVersion> best_written_;
  // The newest version in the database's file without its log: one of these, both inclusive.
  int64_t without_log_from_, without_log_to_;
  std::deque<std::pair<int64_t, int64_t>> log_;  // its number of pages when each version was the newest
  TimeMs brought_over_ = 0;
  TimeMs held_since_ = 0, told_of_reader_ = 0;  // 0: the log is free

  const std::unique_ptr<Executor> executor_;  // destroyed first: its jobs use the members above
};

}  // namespace rivulet
