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
// Of "round", "second" or "end", as the scenario has it.
Durability DurabilityOf(std::string_view name);

// An attempt of which nothing will change any more, and what it leaves.
struct PendingAttempt {
  ClosedAttempt attempt;
  PackedTasks packed;  // its tasks, where nobody asks for them but for their rows: `attempt` has none then
  AttemptEnd end;
  std::optional<RoundRow> row;                        // RoundOf them; null: it was not asked yet
  std::vector<std::pair<std::string, int64_t>> seen;  // client_id, milliseconds since 1970 UTC
  std::optional<ServedVersion> version;               // of a committed one
  std::string snapshot;                               // of the rounds, as they go on from here; "": none
  std::vector<int64_t> needed;                        // earlier versions that tasks of the snapshot start from
  // Of a committed one: what its record states, and the record once its row is durable.
  FoldedUpdates updates = {};
  std::optional<records::RecordedPrivacy> privacy = std::nullopt;
  std::optional<RecordRow> record = std::nullopt;
};

// What a version is worth by its evaluation on the test set, more being better: its accuracy, or else its loss turned
// round; nothing where it was not evaluated.
std::optional<double> WorthOf(const std::map<std::string, Measure>& central);

// The name of the newest snapshot among a run's blobs.
inline constexpr char kSnapshotBlob[] = "rounds";

// Thread-safe. Calls that write do so on their own thread where nobody writes already, so none of them depends on the
// executor's.
class VersionWriter {
 public:
  struct Options {
    Durability durability = Durability::kRound;
    bool keep_all_models = false;
    bool keep_best_model = false;  // that of the greatest worth beside the newest; of several the first
    std::map<int64_t, double>
        worths;  // of the versions that are written, as WorthOf; of those with a file one may be it
    int64_t most_pending_bytes = 64 << 20;  // of rows, and of models that are to be kept; more is written at once
    // What has just become durable, in the order in which it was added, on whichever thread wrote; null: nobody asks.
    std::function<void(std::span<const PendingAttempt>)> on_written;
    // A reader has kept the log from being used again for a minute, and then for twice as long each time: it grows by
    // all that is written meanwhile. Null: nobody asks.
    std::function<void(int64_t seconds, int64_t log_bytes)> on_log_held;
    // Once, on whichever thread wrote: nothing more is written, and the run cannot go on.
    std::function<void(const Status&)> on_failed;
    Tracer* tracer = nullptr;
    RecordMaker* records = nullptr;  // of the run's versions; null: none are made. Must outlive the writer
  };
  // `models` are the rows of the run's models, as the history has them, `last` the version that the run goes on from.
  // History and store must outlive the writer; of the store nothing else is called meanwhile but what is const.
  VersionWriter(History& history, ModelStore& store, std::unique_ptr<Executor> executor, Clock& clock, Options options,
                std::span<const ModelRow> models, int64_t last);
  // What the executor has begun is finished; what waits beyond that is lost.
  ~VersionWriter() = default;

  // In the order of rounds and attempts. Waits while too much does: under "round" three versions, otherwise twice
  // most_pending_bytes.
  void Add(PendingAttempt attempt);
  // Writes what waits, and brings it from the log into the database's file. OK: all that was added is durable.
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
  // `best`, or the version of `pending` where that is better.
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
  TimeMs oldest_ GUARDED_BY(mutex_) = 0;  // when the first of them was added
  int64_t writing_versions_ GUARDED_BY(mutex_) = 0, writing_bytes_ GUARDED_BY(mutex_) = 0;
  bool writing_ GUARDED_BY(mutex_) = false;
  Status failure_ GUARDED_BY(mutex_);
  std::optional<BestVersion> best_ GUARDED_BY(mutex_);  // of all that were added

  // Of whoever has set writing_.
  std::set<int64_t> named_;   // rounds whose row has a path
  std::set<int64_t> needed_;  // by the newest snapshot
  std::set<int64_t> files_;   // rounds whose file lies there
  int64_t newest_;            // with a row
  std::optional<BestVersion> best_written_;
  // The newest that the database's file alone tells of: one of these, both inclusive.
  int64_t without_log_from_, without_log_to_;
  std::deque<std::pair<int64_t, int64_t>> log_;  // how many pages it had when a version was the newest
  TimeMs brought_over_ = 0;
  TimeMs held_since_ = 0, told_of_reader_ = 0;  // 0: the log is free

  const std::unique_ptr<Executor> executor_;  // goes first: its jobs call what stands above
};

}  // namespace rivulet
