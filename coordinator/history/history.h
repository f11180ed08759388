// The history of runs in one SQLite file, which others may read while it is written. The views are a public interface
// (docs/reference/history.md); this class is the only writer.
//
// Thread-safe; calls are serialised. A writer keeps the file in WAL mode with synchronous = FULL: committed data
// survive a crash and a power cut. Several processes may write different runs, and open the file at any time. A writer
// waits indefinitely for another's transaction and reports that (SetOnBusy); a reader waits up to 20 s. Close (or the
// destructor) truncates the log and leaves one plain file, unless another process still has it open. Errors as in
// database.h; an unknown run or client is NOT_FOUND.
#pragma once

#include <array>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coordinator/history/database.h"
#include "coordinator/history/rows.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"

namespace rivulet {

// Everything that closing one attempt at a round writes.
struct AttemptRecord {
  RoundRow round;
  std::vector<ClientRoundRow> tasks;
  std::vector<MetricRow> metrics;
  std::optional<ModelRow> model;       // of a committed round; its path is empty where it has no file
  std::vector<int64_t> forget_models;  // rounds whose model's path becomes NULL
  std::vector<EventRow> events;
  std::vector<std::pair<std::string, int64_t>> seen;  // client_id, milliseconds since 1970 UTC
  bool finishes_run = false;                          // the run's last round: runs.status becomes "finished" with it
  std::string kind =
      "train";  // of all its tasks; "evaluate": a cohort that measures `round`, which is no row of `rounds`
  std::vector<BlobRow> blobs;       // as of this round; each replaces that of its name of earlier ones
  std::optional<RecordRow> record;  // of a committed round
};

// The name of the blob of round 0 that has a run's configuration as it was when its records began.
inline constexpr char kConfigurationBlob[] = "configuration";

// What of the log lies in the file. The log is used again from its beginning once all of it does and nobody reads.
struct CheckpointProgress {
  int64_t log_pages = 0;
  int64_t pages = 0;  // of these, the first so many; -1: another process is bringing them over
  int64_t log_bytes = 0;
  bool whole() const { return pages == log_pages; }
};

// A name that may be selected from (from_round, from_attempt) on.
struct RunClient {
  std::string client_id;
  int64_t from_round = 1;
  int64_t from_attempt = 1;
};

// Where a run goes on.
inline constexpr char kResumedEvent[] = "resumed after round";
// A client whose updates are in versions: how many, and what its newest says.
struct ParticipationRow {
  std::string client_id;
  int64_t version = 0, versions = 0;  // that its newest update is in; all of them
  int64_t examples = 0;
  double train_loss = 0, train_seconds = 0;
};

struct ResumePoint {
  int64_t committed_round = 0;
  int64_t next_attempt = 1;                             // at round committed_round + 1
  int64_t resumes = 0;                                  // so far, by events that begin with kResumedEvent
  std::vector<RunClient> clients;                       // sorted by client_id
  std::vector<std::pair<std::string, int64_t>> leases;  // (client_id, tasks so far on this base version)
  std::vector<int64_t> measured;  // of the last two rounds, those whose version a cohort has measured, or tried to
};

class History {
 public:
  enum class Access { kReadOnly, kReadWrite };
  // kReadWrite creates the file. Either brings an older one up to date. FAILED_PRECONDITION: written by a newer
  // program. DATA_LOSS: damaged or not a history. INVALID_ARGUMENT: a folder, a pipe. NOT_FOUND: no such file
  // (kReadOnly) or folder.
  static StatusOr<std::unique_ptr<History>> Open(const std::string& path, Access access);
  ~History();

  const std::string& path() const { return path_; }
  // The file itself where `path` is a link to it. What belongs to a history lies beside this.
  const std::string& real_path() const { return real_path_; }
  // Where the models of its run `run_id` lie, relative to the folder of the history at `real_path`.
  static std::string ModelsFolder(const std::string& real_path, const std::string& run_id);

  // Who is told in one sentence that a call waits for another process: after two seconds and every minute, on the
  // waiting thread. Nobody: a line on stderr.
  void SetOnBusy(std::function<void(const std::string& sentence)> on_busy);

  // Writing. After an error of a commit itself (a sync that failed) a crash or the next opening may still find the
  // transaction in the log: what its rows name must stay in place until the history is opened again and asked.
  // `record`: of its first version, and its configuration is kept with it as it is now; null: none is made.
  Status AddRun(const RunRow& run, const ModelRow& initial_model, std::span<const EventRow> events,
                const RecordRow* record = nullptr);
  // A run that goes on: status "running", a new configuration, plan and program version, finished_at NULL. Its models
  // are those beside this file, which may have been copied or renamed with them.
  // `record`, of a run that has none: of the version that it goes on from.
  Status ReopenRun(const RunRow& run, std::span<const EventRow> events, const RecordRow* record = nullptr);
  // `status` "finished", "interrupted" or "failed" with its reason.
  Status EndRun(const std::string& run_id, const std::string& status, const std::string& reason, const std::string& at,
                std::span<const EventRow> events);
  // Names that are new to the run; known ones keep their row. One transaction.
  Status AddClients(const std::string& run_id, std::span<const RunClient> clients, const std::string& at);
  // All of them in one transaction, in their order. Tasks are of their record's round, attempt and kind; a client that
  // is new to the run becomes one of its with them.
  Status AddAttempts(std::span<const AttemptRecord> attempts);
  // The same of those that `next` gives one after the other, until null; each is there until `next` is called again.
  Status AddAttempts(const std::function<const AttemptRecord*()>& next);
  Status AddAttempt(const AttemptRecord& attempt) { return AddAttempts(std::span(&attempt, 1)); }
  // As of `round`; replaces that of its name of earlier ones.
  Status PutBlob(const std::string& run_id, int64_t round, const BlobRow& blob);
  // Brings what the log holds into the file, so that the file alone tells it. Not whole: a reader was in the way, and
  // it holds some older state still. Nothing else does before Close: whoever writes knows what a file without its log
  // says.
  StatusOr<CheckpointProgress> BringOver();
  // Everything of the rounds after `round` is as if it had not been written, but for what events say.
  Status GoBack(const std::string& run_id, int64_t round, std::span<const EventRow> events);
  Status AddEvents(std::span<const EventRow> events);
  Status AddTag(const std::string& run_id, const std::string& tag);  // once, however often it is said
  Status AddNote(const std::string& run_id, const std::string& at, const std::string& text);
  Status AddAudit(const AuditRow& row);
  // What `row`, an approve, ban or remove, makes of its client, and the row itself. A name that nobody has seen yet is
  // kept too. One that was removed becomes active when it joins a run again.
  Status DecideClient(const AuditRow& row);
  // These runs of another history of this version, as they are stored, with the clients that are known there; their
  // files are the caller's to bring. One transaction. DATA_LOSS: it holds what no program of ours writes, such as a
  // model's path that leads out of its run's folder. ALREADY_EXISTS: a run of that id.
  Status Import(const std::string& other, std::span<const std::string> run_ids);
  // A run that another program did, of which only numbers are known: without a plan, a model or rounds, its metrics by
  // step. `keys`: what it was told, by name. One transaction. ALREADY_EXISTS: a run of that id.
  Status AddForeignRun(const RunRow& run, std::span<const RunKeyRow> keys, std::span<const MetricRow> metrics);
  // Every row of a run; what clients are known of stays. One transaction. The caller holds the run's lock, and removes
  // its files after this.
  Status RemoveRun(const std::string& run_id);
  // Truncates the log and returns to one plain file where no other process has it open; nothing more can be called.
  Status Close();

  // Reading.
  // The run of this id, else the newest of this name; "latest" (when no run has that id or name): the newest of all.
  // NOT_FOUND names the nearest known run.
  StatusOr<RunRow> ResolveRun(const std::string& run);
  StatusOr<std::vector<RunRow>> Runs();                                              // newest first
  StatusOr<std::vector<RunSummaryRow>> RunSummaries();                               // newest first
  StatusOr<std::vector<RoundRow>> Rounds(const std::string& run_id);                 // every attempt, in order
  StatusOr<std::vector<RoundSummaryRow>> RoundSummaries(const std::string& run_id);  // committed rounds, in order
  StatusOr<std::vector<ClientRoundRow>> ClientRounds(const std::string& run_id, std::optional<int64_t> round = {});
  // Of one client, newest first: `most` of them after the first `skip`.
  StatusOr<std::vector<ClientRoundRow>> ClientTasks(const std::string& run_id, const std::string& client_id,
                                                    size_t most, size_t skip);
  StatusOr<std::vector<ClientReliabilityRow>> ClientReliability(const std::string& run_id);
  // The least reliable first: `most` of them after the first `skip`.
  StatusOr<std::vector<ClientReliabilityRow>> LeastReliable(const std::string& run_id, size_t most, size_t skip);
  // Of one client; none: it has had no task in this run.
  StatusOr<std::optional<ClientReliabilityRow>> ReliabilityOf(const std::string& run_id, const std::string& client_id);
  StatusOr<std::vector<MetricRow>> Metrics(const std::string& run_id, const std::string& scope = "central");
  StatusOr<std::vector<ModelRow>> Models(const std::string& run_id);
  StatusOr<std::vector<RecordRow>> Records(const std::string& run_id);  // in order
  StatusOr<std::optional<RecordRow>> FindRecord(const std::string& run_id, int64_t round);
  StatusOr<std::vector<EventRow>> Events(const std::string& run_id);
  StatusOr<std::vector<EventRow>> NewestEvents(const std::string& run_id, size_t most);  // newest first
  StatusOr<std::vector<ClientRow>> Clients();
  StatusOr<std::vector<ClientRow>> ClientsAfter(const std::string& client_id, size_t most);  // by name
  StatusOr<std::vector<ClientRow>> DecidedClients();                    // whose status is another than "active"
  StatusOr<std::vector<RunKeyRow>> RunKeys(const std::string& run_id);  // by key
  StatusOr<std::vector<TagRow>> Tags(const std::string& run_id);
  StatusOr<std::vector<NoteRow>> Notes(const std::string& run_id);  // in order
  StatusOr<std::vector<AuditRow>> Audit();                          // in order
  // The newest of this name, with its round.
  StatusOr<std::optional<std::pair<int64_t, BlobRow>>> FindBlob(const std::string& run_id, const std::string& name);
  StatusOr<ResumePoint> FindResumePoint(const std::string& run_id);
  // The newest task of each client whose update is in a version, up to that of round `last`, in no order. O(tasks of
  // the run).
  StatusOr<std::vector<std::string>> NewestFolded(const std::string& run_id,
                                                  int64_t last = std::numeric_limits<int64_t>::max());
  // Of each client whose update is in a version, in byte order of the names. O(tasks of the run).
  StatusOr<std::vector<ParticipationRow>> Participations(const std::string& run_id);
  // What reads from now on tells how far it is (database.h).
  void TellReading(std::function<Status(int64_t read, int64_t bytes)> tell);
  // Whatever else can be asked of the views: one statement that only reads, with a value for each `?`. Errors as
  // Database::Ask.
  StatusOr<SqlAnswer> Ask(const std::string& sql, std::initializer_list<SqlValue> values = {});
  StatusOr<std::optional<ClientRoundRow>> FindTask(const std::string& task_id);
  StatusOr<std::optional<ClientRoundRow>> LastTask(const std::string& run_id, const std::string& client_id);

 private:
  History(std::string path, std::string real_path, Access access, std::unique_ptr<Database> db);
  // Integer keys. NOT_FOUND.
  StatusOr<int64_t> RunKey(const std::string& run_id) REQUIRES(mutex_);
  StatusOr<int64_t> ClientKey(const std::string& client_id) REQUIRES(mutex_);
  StatusOr<int64_t> ParentKey(const std::string& parent_id) REQUIRES(mutex_);
  StatusOr<int64_t> AddMember(int64_t run, const RunClient& client, int64_t at) REQUIRES(mutex_);  // its client's key
  // What the attempts of one transaction change in rows that are there, by key.
  struct Changes {
    struct Totals {
      RunClient member;               // of the first task: where its client is new to the run, it becomes one of it
      int64_t at = 0;                 // when that task's attempt ended
      std::array<int64_t, 4> ends{};  // folded, refused, dropped, failed
      int64_t examples = 0, timed = 0;
      double train_seconds = 0;
    };
    std::map<int64_t, std::unordered_map<int64_t, Totals>> totals;  // by run and client
    std::unordered_map<int64_t, int64_t> seen;                      // client: last_seen
  };
  Status InsertAttempt(const AttemptRecord& attempt, Changes& changes) REQUIRES(mutex_);
  Status ApplyChanges(const Changes& changes) REQUIRES(mutex_);
  Status InsertEvents(std::span<const EventRow> events) REQUIRES(mutex_);
  Status InsertAudit(const AuditRow& row) REQUIRES(mutex_);
  Status InsertModel(int64_t run, const ModelRow& model) REQUIRES(mutex_);
  Status InsertBlob(int64_t run, int64_t round, const BlobRow& blob) REQUIRES(mutex_);
  Status InsertRecord(int64_t run, const RecordRow& record) REQUIRES(mutex_);
  // The first of a run, with the configuration that it names.
  Status InsertFirstRecord(int64_t run, const RunRow& row, const RecordRow& record) REQUIRES(mutex_);
  Status InsertTasks(int64_t run, int64_t attempt_key, const AttemptRecord& record, Changes& changes) REQUIRES(mutex_);
  Status InsertMetrics(int64_t run, const AttemptRecord& record) REQUIRES(mutex_);

  const std::string path_, real_path_;
  const Access access_;
  Mutex mutex_;
  std::unique_ptr<Database> db_ GUARDED_BY(mutex_);  // null after Close
  // Of the runs and clients that were written lately: a task costs one INSERT and no question.
  std::unordered_map<std::string, int64_t> run_keys_ GUARDED_BY(mutex_), client_keys_ GUARDED_BY(mutex_);
};

}  // namespace rivulet
