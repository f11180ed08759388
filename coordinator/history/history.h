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

// All rows written at the end of one attempt at a round.
struct AttemptRecord {
  RoundRow round;
  std::vector<ClientRoundRow> tasks;
  std::vector<MetricRow> metrics;
  std::optional<ModelRow> model;       // of a committed round; its path is empty if it has no file
  std::vector<int64_t> forget_models;  // rounds whose model's path becomes NULL
  std::vector<EventRow> events;
  std::vector<std::pair<std::string, int64_t>> seen;  // client_id, milliseconds since 1970 UTC
  bool finishes_run = false;                          // the run's last round: runs.status becomes "finished" with it
  std::string kind =
      "train";  // of all its tasks; "evaluate": a cohort that measures `round`, which is no row of `rounds`
  std::vector<BlobRow> blobs;       // as of this round; each replaces earlier ones of its name
  std::optional<RecordRow> record;  // a committed round's
};

// The name of round 0's blob with a run's configuration at the time when its records began.
inline constexpr char kConfigurationBlob[] = "configuration";

// The part of the log that is in the file. The log restarts once all of it is, and no reader needs it.
struct CheckpointProgress {
  int64_t log_pages = 0;
  int64_t pages = 0;  // of these, the number in the file; -1: another process is checkpointing
  int64_t log_bytes = 0;
  bool whole() const { return pages == log_pages; }
};

// A client that may be selected from (from_round, from_attempt) on.
struct RunClient {
  std::string client_id;
  int64_t from_round = 1;
  int64_t from_attempt = 1;
};

// Message prefix of the event with which a run resumes.
inline constexpr char kResumedEvent[] = "resumed after round";
// A client with updates in versions: their number, and the figures of its newest one.
struct ParticipationRow {
  std::string client_id;
  int64_t version = 0, versions = 0;  // the version with its newest update; the number of versions with its updates
  int64_t examples = 0;
  double train_loss = 0, train_seconds = 0;
};

struct ResumePoint {
  int64_t committed_round = 0;
  int64_t next_attempt = 1;                             // at round committed_round + 1
  int64_t resumes = 0;                                  // so far, counted by events that begin with kResumedEvent
  std::vector<RunClient> clients;                       // sorted by client_id
  std::vector<std::pair<std::string, int64_t>> leases;  // (client_id, tasks so far on this base version)
  std::vector<int64_t> measured;  // of the last two rounds, those with an evaluation, successful or not
};

class History {
 public:
  enum class Access { kReadOnly, kReadWrite };
  // kReadWrite creates the file. Both migrate an older one. FAILED_PRECONDITION: written by a newer program.
  // DATA_LOSS: damaged or not a history. INVALID_ARGUMENT: a folder, a pipe. NOT_FOUND: no such file (kReadOnly) or
  // folder.
  static StatusOr<std::unique_ptr<History>> Open(const std::string& path, Access access);
  ~History();

  const std::string& path() const { return path_; }
  // The file itself if `path` is a link. A history's other files are beside it.
  const std::string& real_path() const { return real_path_; }
  // The folder of the models of run `run_id`, relative to the folder of the history at `real_path`.
  static std::string ModelsFolder(const std::string& real_path, const std::string& run_id);

  // Sets the handler of a message that a call waits for another process: after two seconds and every minute, on the
  // waiting thread. Null: a line on stderr.
  void SetOnBusy(std::function<void(const std::string& sentence)> on_busy);

  // Writing. If a commit itself fails (in its sync), a crash or the next opening may still find the transaction in the
  // log. So files that its rows name must stay until the history was opened and read again.
  // `record`: of the run's first version, stored with its present configuration; null: the run makes no records.
  Status AddRun(const RunRow& run, const ModelRow& initial_model, std::span<const EventRow> events,
                const RecordRow* record = nullptr);
  // A run that resumes: status "running", a new configuration, plan and program version, finished_at NULL. Its models
  // are those beside this file, which may have been copied or renamed with it.
  // `record`: of the version from which a run without records resumes; null: it has records.
  Status ReopenRun(const RunRow& run, std::span<const EventRow> events, const RecordRow* record = nullptr);
  // `status` "finished", "interrupted" or "failed" with its reason.
  Status EndRun(const std::string& run_id, const std::string& status, const std::string& reason, const std::string& at,
                std::span<const EventRow> events);
  // Adds names that are new to the run; known ones keep their row. One transaction.
  Status AddClients(const std::string& run_id, std::span<const RunClient> clients, const std::string& at);
  // Adds all in one transaction, in order. Tasks have their record's round, attempt and kind. Their clients become
  // members of the run if they are new to it.
  Status AddAttempts(std::span<const AttemptRecord> attempts);
  // The same for records from `next`, until that gives null; each is valid until the next call.
  Status AddAttempts(const std::function<const AttemptRecord*()>& next);
  Status AddAttempt(const AttemptRecord& attempt) { return AddAttempts(std::span(&attempt, 1)); }
  // As of `round`; replaces earlier ones of its name.
  Status PutBlob(const std::string& run_id, int64_t round, const BlobRow& blob);
  // Checkpoints: copies the log into the file, so that the file alone has its content. Not whole: a reader still
  // needs an older state. Nothing else does this before Close, so a writer knows the content of a file without its
  // log.
  StatusOr<CheckpointProgress> BringOver();
  // Removes all rows of the rounds after `round`, except events.
  Status GoBack(const std::string& run_id, int64_t round, std::span<const EventRow> events);
  Status AddEvents(std::span<const EventRow> events);
  Status AddTag(const std::string& run_id, const std::string& tag);  // once, even if it is added repeatedly
  Status AddNote(const std::string& run_id, const std::string& at, const std::string& text);
  Status AddAudit(const AuditRow& row);
  // Applies `row`, an approve, ban or remove, to its client, and adds the row. A name without any call is stored too. A
  // removed client becomes active when it joins a run again.
  Status DecideClient(const AuditRow& row);
  // Copies these runs from another history of this version, as stored, with their clients; the caller copies their
  // files. One transaction. DATA_LOSS: it has content that this program never writes, such as a model's path outside
  // its run's folder. ALREADY_EXISTS: a run of that id.
  Status Import(const std::string& other, std::span<const std::string> run_ids);
  // Adds a run of another program with numbers alone: no plan, model or rounds, and metrics by step. `keys`: its
  // settings, by name. One transaction. ALREADY_EXISTS: a run of that id.
  Status AddForeignRun(const RunRow& run, std::span<const RunKeyRow> keys, std::span<const MetricRow> metrics);
  // Removes every row of a run; its clients' own rows stay. One transaction. The caller holds the run's lock, and
  // removes its files afterwards.
  Status RemoveRun(const std::string& run_id);
  // Truncates the log, which leaves one plain file if no other process has it open; no call may follow.
  Status Close();

  // Reading.
  // The run of this id, else the newest of this name; "latest" (if no run has that id or name): the newest of all.
  // NOT_FOUND names the nearest known run.
  StatusOr<RunRow> ResolveRun(const std::string& run);
  StatusOr<std::vector<RunRow>> Runs();                                              // newest first
  StatusOr<std::vector<RunSummaryRow>> RunSummaries();                               // newest first
  StatusOr<std::vector<RoundRow>> Rounds(const std::string& run_id);                 // every attempt, in order
  StatusOr<std::vector<RoundSummaryRow>> RoundSummaries(const std::string& run_id);  // committed rounds, in order
  StatusOr<std::vector<ClientRoundRow>> ClientRounds(const std::string& run_id, std::optional<int64_t> round = {});
  // Tasks of one client, newest first: `most` of them after the first `skip`.
  StatusOr<std::vector<ClientRoundRow>> ClientTasks(const std::string& run_id, const std::string& client_id,
                                                    size_t most, size_t skip);
  StatusOr<std::vector<ClientReliabilityRow>> ClientReliability(const std::string& run_id);
  // The least reliable clients first: `most` of them after the first `skip`.
  StatusOr<std::vector<ClientReliabilityRow>> LeastReliable(const std::string& run_id, size_t most, size_t skip);
  // Gives one client's reliability; nullopt: it has had no task in this run.
  StatusOr<std::optional<ClientReliabilityRow>> ReliabilityOf(const std::string& run_id, const std::string& client_id);
  StatusOr<std::vector<MetricRow>> Metrics(const std::string& run_id, const std::string& scope = "central");
  StatusOr<std::vector<ModelRow>> Models(const std::string& run_id);
  StatusOr<std::vector<RecordRow>> Records(const std::string& run_id);  // in order
  StatusOr<std::optional<RecordRow>> FindRecord(const std::string& run_id, int64_t round);
  StatusOr<std::vector<EventRow>> Events(const std::string& run_id);
  StatusOr<std::vector<EventRow>> NewestEvents(const std::string& run_id, size_t most);  // newest first
  StatusOr<std::vector<ClientRow>> Clients();
  StatusOr<std::vector<ClientRow>> ClientsAfter(const std::string& client_id, size_t most);  // by name
  StatusOr<std::vector<ClientRow>> DecidedClients();                    // with another status than "active"
  StatusOr<std::vector<RunKeyRow>> RunKeys(const std::string& run_id);  // by key
  StatusOr<std::vector<TagRow>> Tags(const std::string& run_id);
  StatusOr<std::vector<NoteRow>> Notes(const std::string& run_id);  // in order
  StatusOr<std::vector<AuditRow>> Audit();                          // in order
  // The newest blob of this name, with its round.
  StatusOr<std::optional<std::pair<int64_t, BlobRow>>> FindBlob(const std::string& run_id, const std::string& name);
  StatusOr<ResumePoint> FindResumePoint(const std::string& run_id);
  // Gives the newest task of each client with an update in a version up to round `last`, in no order. O(tasks of the
  // run).
  StatusOr<std::vector<std::string>> NewestFolded(const std::string& run_id,
                                                  int64_t last = std::numeric_limits<int64_t>::max());
  // Gives a row per client with an update in a version, in byte order of the names. O(tasks of the run).
  StatusOr<std::vector<ParticipationRow>> Participations(const std::string& run_id);
  // Later reads report their progress (database.h).
  void TellReading(std::function<Status(int64_t read, int64_t bytes)> tell);
  // Any other query of the views: one read-only statement, with a value for each `?`. Errors as
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
  // Changes by the attempts of one transaction to existing rows, by key.
  struct Changes {
    struct Totals {
      RunClient member;               // of the first task: its client becomes a member if it is new to the run
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
  // Keys of recently written runs and clients: with them a task costs one INSERT and no query.
  std::unordered_map<std::string, int64_t> run_keys_ GUARDED_BY(mutex_), client_keys_ GUARDED_BY(mutex_);
};

}  // namespace rivulet
