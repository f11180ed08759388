// The coordinator of one run. Events go into the round machine under one lock, and its answers are carried out here.
// Heavy work (digests, checks, folds, versions) runs outside that lock: on the caller's thread for uploads, on the
// run's own thread for versions and deadlines. The writer owns files and rows (commit/version_writer.h).
//
//   create.cc           a new run or a stored one
//   run_coordinator.cc  events, the run's thread, callbacks, the end
//   api.cc              Poll, Fetch, Submit, Fail
//   in_place.cc         what sites of the same process ask: FetchInPlace, SubmitInPlace, AwaitWork
//   site_partials.cc    partials that sites of other processes send
//   site_states.cc      what their clients keep from task to task
//   accepted_reports.cc updates that survive this process
//   close_attempt.cc    what becomes of an attempt: the next version or none, who is told
//   steering.cc         what operators ask: how it stands, that it pauses or ends, that a client goes
//
// If tasks outlive versions, an attempt at a round is the set of updates of its version. When that is made, the records
// of open tasks move to the next attempt. A task's base version belongs to its lease, never to the attempt.
//
// A task's record is written under mutex_ while its attempt is open; once the machine has closed the attempt it is only
// read.
//
// Locks, in the order they may nest: mutex_ → Intake's → Upload's → Staging's, History's and Versions'. An
// accumulator's is taken alone.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "coordinator/clients.h"
#include "coordinator/commit/version_writer.h"
#include "coordinator/history/history.h"
#include "coordinator/intake/distrusted_sites.h"
#include "coordinator/intake/intake.h"
#include "coordinator/intake/report_store.h"
#include "coordinator/intake/round_accumulator.h"
#include "coordinator/ledger/ledger.h"
#include "coordinator/ledger/state_book.h"
#include "coordinator/model_store/model_store.h"
#include "coordinator/rounds/run_machine.h"
#include "coordinator/run_clock.h"
#include "coordinator/run_events.h"
#include "coordinator/run_history.h"
#include "coordinator/run_parts.h"
#include "coordinator/stop_rule.h"
#include "coordinator/versions.h"
#include "engine/base/mutex.h"
#include "federated/mechanisms/mean_mechanisms.h"
#include "federated/numbers/number_rule.h"
#include "federated/server_optimizers/server_optimizer.h"
#include "federated/states/state_store.h"

namespace rivulet {

// What a selection knows of how long a client's task took: as it was planned, else as it was measured.
inline double DurationOf(const CoordinatorOptions& options, const std::string& client_id, double train_seconds) {
  return options.task_time ? static_cast<double>(options.task_time(client_id)) : train_seconds;
}

class RunCoordinator final : public Coordinator, private ClientRounds {
 public:
  struct Setup {
    CoordinatorOptions options;
    RunParts parts;
    std::unique_ptr<const ServerOptimizer> optimizer;
    MeanMechanisms mean_mechanisms;
    std::unique_ptr<const NumberRule> number_rule;  // null: tasks bring no numbers
    std::string run_id;
    std::unique_ptr<History> history;
    std::unique_ptr<ModelStore> models;
    ServedVersion current;
    std::vector<ServedVersion> before;  // earlier ones that are still to be measured, or that tasks start from
    std::vector<ModelRow> model_rows;   // as the history has them
    // Where clients keep something: the newest of each, behind those that were it when a version was made that is still
    // to be measured.
    std::vector<TaskId> folded;
    std::optional<RunMachine> machine;
    StopRule stop_rule;      // that has heard of all versions before
    int64_t last_round = 0;  // as planned, or that of the version with which the run was to end
    bool resumed = false;
    bool already_finished = false;
  };
  explicit RunCoordinator(Setup setup);
  ~RunCoordinator() override;

  StatusOr<PollReply> Poll(const PollRequest& request) override;
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller& caller, const BlobId& blob, int64_t offset) override;
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override;
  Status Fail(const Caller& caller, const TaskFailure& failure) override;
  void AwaitWork(const Caller& caller, uint64_t epoch, int64_t timeout_ms) override;
  void SetListener(NewsListener* listener) override;
  StatusOr<SubmitResult> SubmitInPlace(const Caller& caller, Partial&& partial,
                                       std::span<const TaskRecord> records) override;
  StatusOr<std::shared_ptr<const Model>> FetchInPlace(const Caller& caller, const BlobId& blob) override;

  const std::string& run_id() const override { return run_id_; }
  const std::string& folder() const override { return models_->folder(); }
  bool already_finished() const override { return already_finished_; }
  Status Wait() override;
  void Stop() override;
  void Steer(Steering steering) override;
  bool Remove(const std::string& client_id, const std::string& reason) override;
  void LoseSite(const std::string& site) override;
  RunStatus Standing() override;
  bool over() const override;
  bool stopped() const override;
  std::shared_ptr<const Model> model() const override;

 private:
  // What is known of one task while it is open.
  struct TaskEntry : TaskFacts {
    std::shared_ptr<std::atomic<int64_t>> downloaded;  // bytes_down; null: nothing, as of all whose sites are in place
    int64_t base_version = 0;
    uint64_t gather = 0;  // Offer's
  };
  struct Attempt {
    TaskKind kind = TaskKind::kTrain;
    int64_t round = 0;  // kEvaluate: the version that is measured
    int64_t number = 1;
    int64_t started_unix_ms = 0;
    TimeMs started = 0, closed = 0;
    int64_t traced_from = 0;   // ProfileNanos
    int64_t traced_until = 0;  // when it was made or given up: the next may begin before this one is reported
    std::unordered_map<TaskId, TaskEntry> tasks;
    std::map<uint64_t, int64_t> gathers;  // what its tasks may be gathered in, and the version that those start from
    int64_t told_progress = 0;            // updates that on_progress has heard of
    std::set<std::string> arriving;       // partials and states, by what Intake knows them as
    // What its tasks' sites may fetch: by the blob's digest, the task that begins with it, and whose proposal it is.
    struct KeptState {
      TaskId task, state_of;
    };
    std::map<std::string, KeptState> states;
    std::unique_ptr<RoundAccumulator> accumulator;
    bool open = true;  // else its records are its job's
  };
  struct Job {  // for the run's thread
    std::variant<Commit, Abandon, Evaluated> action;
    std::shared_ptr<Attempt> attempt;
    std::vector<Lease> leases;
  };
  // What closing one came to, before it is written. Not OK: the run cannot go on.
  struct Outcome {
    Status status;
    PendingAttempt pending;
  };
  // What is told of one, beside its rows.
  struct ClosedNews {
    RoundReport report;         // of a training
    EvaluationReport measured;  // of an evaluation
    std::vector<std::pair<std::string, TaskOutcome>> outcomes;
    std::vector<EventRow> events;
  };
  // What the process before this one has acknowledged, and whose tasks are offered again.
  struct LeftReport {
    TaskId task;  // of a partial, one of them
    std::string client_id;
    int64_t round = 0;
    std::optional<KeptPartial> partial;
  };
  // run_coordinator.cc
  VersionWriter::Options WriterOptions();
  void OnWritten(std::span<const PendingAttempt> attempts) EXCLUDES(mutex_);
  void OnWriteFailed(const Status& status) EXCLUDES(mutex_);
  void OnLogHeld(int64_t seconds, int64_t log_bytes) EXCLUDES(mutex_);
  std::vector<Action> Feed(const Event& event, std::vector<Action> room = {}) REQUIRES(mutex_);
  std::shared_ptr<Attempt>& AttemptOf(TaskKind kind) REQUIRES(mutex_) {
    return kind == TaskKind::kTrain ? attempt_ : evaluation_;
  }
  std::shared_ptr<Attempt> AttemptOf(const TaskId& task) REQUIRES(mutex_);  // of an open task; null: there is none
  TaskEntry* EntryOf(const TaskId& task) REQUIRES(mutex_);  // in an open attempt; null: in none, or no longer
  // Whether a site that says that it has this task can have it from the version that the task starts from now.
  bool MayHave(const TaskId& task) REQUIRES(mutex_);
  void BeginAttempt(TaskKind kind, int64_t round, int64_t number) REQUIRES(mutex_);
  void BeginTask(const Offer& offer) REQUIRES(mutex_);
  std::shared_ptr<Attempt> CloseAttempt(const Close& close, std::span<const Lease> leases) REQUIRES(mutex_);
  void BeginRun() REQUIRES(mutex_);  // once, at the first call
  void TickIfDue() REQUIRES(mutex_);
  void TellProgress() REQUIRES(mutex_);  // of the open attempt
  void RunThread();
  void EndRun() EXCLUDES(mutex_);
  void LogWaiting() REQUIRES(mutex_);
  TimeMs NextWake() const REQUIRES(mutex_);  // of the run's thread, if nothing happens before; 0: never
  void Wake() EXCLUDES(mutex_);              // the run's thread

  // What clients need of the rounds.
  bool Begin() override EXCLUDES(mutex_);
  bool Over() override EXCLUDES(mutex_);
  bool Knows(const std::string& client_id) override EXCLUDES(mutex_);
  std::string ViaOf(const std::string& client_id) override EXCLUDES(mutex_);
  Status MayJoin(const std::string& client_id, int64_t others) override EXCLUDES(mutex_);
  std::pair<int64_t, int64_t> NextDraw() override EXCLUDES(mutex_);
  std::string Join(std::vector<std::string> client_ids, const std::string& via) override EXCLUDES(mutex_);
  void Leave(const std::string& client_id, const std::string& reason) override EXCLUDES(mutex_);
  int64_t Round() override EXCLUDES(mutex_);
  void AwaitRecovered() override EXCLUDES(mutex_);
  bool Answer(const PollRequest& request, const std::set<std::string_view>& refused, PollReply* reply) override
      EXCLUDES(mutex_);
  bool Superseding(const TaskId& task) override EXCLUDES(mutex_);

  // in_place.cc
  Status CheckNumbers(const TaskId& task, const Scalars& declared) const REQUIRES(mutex_);
  void Record(Attempt& attempt, const TaskRecord& record) REQUIRES(mutex_);
  // As SubmitInPlace, of records whose tasks are those of the partial. `kept`: by the process before this one.
  StatusOr<SubmitResult> MergePartial(const std::string& site, Partial&& partial, std::span<const TaskRecord> records,
                                      bool kept = false) EXCLUDES(mutex_);

  // site_partials.cc
  StatusOr<std::unique_ptr<ChunkWriter>> BeginPartial(const Caller& caller, const Submission& submission)
      REQUIRES(mutex_);
  StatusOr<SubmitResult> ClosePartial(const std::shared_ptr<Attempt>& attempt, int64_t base_version,
                                      const Caller& caller, const std::string& key, Upload& upload, int64_t writer,
                                      const Digest& identity) EXCLUDES(mutex_);

  // site_states.cc
  StatusOr<std::string> ReadState(const Caller& caller, const BlobId& blob) EXCLUDES(mutex_);
  StatusOr<std::unique_ptr<ChunkWriter>> BeginState(const Caller& caller, const Submission& submission)
      REQUIRES(mutex_);
  StatusOr<SubmitResult> CloseState(const std::shared_ptr<Attempt>& attempt, const TaskId& task, const std::string& key,
                                    Upload& upload, int64_t writer, const Digest& identity) EXCLUDES(mutex_);
  void ForgetUnfolded(const PendingAttempt& attempt) EXCLUDES(mutex_);
  bool IsSuperseding(const TaskId& task) const REQUIRES(mutex_);
  void ForgetSuperseded() EXCLUDES(mutex_);

  // accepted_reports.cc
  Status KeepReport(const TaskId& task, const Upload::Whole& whole) EXCLUDES(mutex_);
  // Nullopt: one of its tasks is resolved by now, so that it will be refused.
  StatusOr<std::optional<KeptPartial>> KeepPartial(const std::string& site, std::span<const TaskRecord> records,
                                                   std::span<const std::byte> bytes) EXCLUDES(mutex_);
  Status NameInHistory(const TaskId& task) EXCLUDES(mutex_);
  Status AskAgain(const Status& why) EXCLUDES(mutex_);
  void ForgetReports(std::span<const PendingAttempt> attempts) EXCLUDES(mutex_);
  void CountLeft(const LeftReport& left) EXCLUDES(mutex_);
  bool IsMissing(const TaskId& task) EXCLUDES(mutex_);  // open, and nobody's update of it is being folded
  Status CountUpdate(const LeftReport& left) EXCLUDES(mutex_);
  Status CountPartial(const KeptPartial& left) EXCLUDES(mutex_);
  // The version that a task starts from, if that is still open and `base` its model.
  StatusOr<int64_t> BaseOfRecoveredReport(const TaskId& task, const Digest& base) EXCLUDES(mutex_);

  // api.cc
  Status CheckCaller(const Caller& caller) const;
  Task MakeTask(Offer offer) const REQUIRES(mutex_);
  StatusOr<SubmitResult> ResultOfRefused(const Refuse& refusal) EXCLUDES(mutex_);
  StatusOr<SubmitResult> CloseUpload(const TaskId& task, Upload& upload, int64_t writer, const Digest& identity)
      EXCLUDES(mutex_);

  // steering.cc
  std::string WhatIsAwaited() REQUIRES(mutex_);
  void CountTotals(const RoundRow& row) REQUIRES(mutex_);

  // close_attempt.cc
  void CloseJob(Job job) EXCLUDES(mutex_);
  bool NextRoundDependsOn(const Job& job) EXCLUDES(mutex_);
  bool RowsSufficeToResume() const REQUIRES(mutex_);
  ClosedNews NewsOf(const Attempt& attempt, const PendingAttempt& pending) const;
  // Gives what the observer is to be called with.
  std::vector<RunEvents::Callback> Notify(const PendingAttempt& pending, ClosedNews news) EXCLUDES(mutex_);
  Outcome MakeRound(Job& job) EXCLUDES(mutex_);
  Outcome AbandonRound(Job& job) EXCLUDES(mutex_);
  Outcome FinishEvaluation(Job& job) EXCLUDES(mutex_);
  EvaluationReport ReportOfEvaluation(const PendingAttempt& pending) const;
  // Takes its leases. `room` is memory for the tasks; none are in it.
  ClosedAttempt Closed(Job& job, std::vector<ClosedAttempt::ClosedTask> room) const;
  std::vector<ReportedLoss> ReportedLosses(const Job& job) const;
  RoundReport ReportOf(const Attempt& attempt, const PendingAttempt& pending) const;
  void TraceRound(const Attempt& attempt, const RoundReport& report) const;

  const CoordinatorOptions options_;
  const RunParts parts_;
  const std::unique_ptr<const ServerOptimizer> optimizer_;
  const MeanMechanisms mean_mechanisms_;
  const std::unique_ptr<const NumberRule> number_rule_;
  const std::string run_id_;
  const bool resumed_;
  const bool already_finished_;
  const int64_t first_version_;  // that this process may make
  const int64_t max_update_bytes_, max_partial_bytes_;
  const RunClock clock_;
  RunHistory history_;
  RunEvents events_;
  const std::unique_ptr<ModelStore> models_;
  // Of clients whose sites share no disk; null where clients keep nothing.
  const std::unique_ptr<ClientStateStore> kept_;
  const bool keeps_reports_;
  ReportStore reports_;
  Intake intake_;
  Versions versions_;
  DistrustedSites distrusted_;
  // Of the run's thread.
  // None: the memory of a cohort's, which is had anew from the system otherwise.
  std::vector<Action> offers_;
  std::vector<ClosedAttempt::ClosedTask> closed_;
  StopRule stop_rule_;
  int64_t last_round_;

  mutable Mutex mutex_;
  CondVar changed_;
  RunMachine machine_ GUARDED_BY(mutex_);
  bool begun_ GUARDED_BY(mutex_) = false;
  Status failure_ GUARDED_BY(mutex_);                // why the run fails, with its code
  int64_t unwritten_ GUARDED_BY(mutex_) = 0;         // attempts that were closed and whose rows are not written
  std::set<TaskId> named_tasks_ GUARDED_BY(mutex_);  // by the snapshot that was written for reports last
  std::deque<LeftReport> left_ GUARDED_BY(mutex_);   // for the run's thread; its first is being counted
  bool sent_away_ GUARDED_BY(mutex_) = false;        // somebody who was a member
  bool said_unkept_ GUARDED_BY(mutex_) = false;      // that reports cannot be kept
  // Of training, with all tasks that are out; while a version is being made and tasks outlive it, the next one.
  std::shared_ptr<Attempt> attempt_ GUARDED_BY(mutex_);
  std::shared_ptr<Attempt> evaluation_ GUARDED_BY(mutex_);  // the measuring of a version beside it
  std::deque<Job> jobs_ GUARDED_BY(mutex_);
  TimeMs wake_at_ GUARDED_BY(mutex_) = 0;  // 0: never
  CondVar work_;                           // of epoch_
  uint64_t epoch_ GUARDED_BY(mutex_) = 1;  // counts what a waiting site may want to hear of
  NewsListener* listener_ GUARDED_BY(mutex_) = nullptr;
  std::set<std::string> aggregators_ GUARDED_BY(mutex_);  // that have polled
  StateBook states_ GUARDED_BY(mutex_);                   // where clients keep something, or may
  // Where versions are measured with that: those that were and whose figures are not durable, so that a crash has them
  // measured again; and tasks in durable versions whose clients' earlier proposals wait for it (kept_ alone).
  std::set<int64_t> measured_ GUARDED_BY(mutex_);
  std::vector<TaskId> superseding_ GUARDED_BY(mutex_);
  RunStatus::Totals totals_ GUARDED_BY(mutex_);
  Clients clients_;
  VersionWriter writer_;
  std::thread thread_;
};

}  // namespace rivulet
