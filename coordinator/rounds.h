// The rounds of a run: the driver of the round machine. Events enter the machine under one lock, and its actions are
// executed under the same lock. So the machine, the records of attempts and the jobs of the run's thread never differ.
// Aggregation, versions and files happen elsewhere, without the lock.
//
//   rounds.cc         events and their actions, attempts, the run's thread
//   api.cc            polls, updates, failures
//   in_place.cc       partial sums of sites of this process
//   site_partials.cc  partial sums that sites of other processes send
//   site_states.cc    the states of clients that such sites fetch and store
//   secure_steps.cc   the steps of secure aggregation
//   steering.cc       operators' requests: the status, pause and end of the run, the removal of a client
//
// If tasks outlive versions, an attempt at a round is the set of updates of its version. When that is made, the records
// of open tasks move to the next attempt. A task's base version belongs to its lease, never to the attempt.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "coordinator/accepted_reports.h"
#include "coordinator/attempt.h"
#include "coordinator/client_states.h"
#include "coordinator/clients.h"
#include "coordinator/intake/intake.h"
#include "coordinator/rounds/run_machine.h"
#include "coordinator/run_clock.h"
#include "coordinator/run_events.h"
#include "coordinator/run_parts.h"
#include "coordinator/versions.h"
#include "engine/base/mutex.h"
#include "federated/numbers/number_rule.h"
#include "federated/secure/messages.h"

namespace rivulet {

// Driver of the round machine. Thread-safe. Its lock comes after that of Clients, and before those of Intake,
// ClientStates, Versions and RunEvents; it is not held over I/O.
class Rounds final : public ClientRounds {
 public:
  // References to the environment of the rounds; all must outlive them.
  struct Around {
    const RunClock& clock;
    RunEvents& events;
    Versions& versions;
    Intake& intake;
    ClientStates& states;
    AcceptedReports& reports;
    Clients& clients;
  };
  // `numbers` may be null. `resumed`: versions from `first_version` on may have been made by another process already.
  Rounds(std::string run_id, const CoordinatorOptions& options, const RunParts& parts, const NumberRule* numbers,
         RunMachine machine, bool resumed, int64_t first_version, Around around);

  // --- Clients and sites: as in CoordinatorApi, for callers of this run
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) EXCLUDES(mutex_);
  Status Fail(const Caller& caller, const TaskFailure& failure) EXCLUDES(mutex_);
  // Merges a partial sum with the records of exactly its tasks. `kept`: an earlier process accepted it.
  StatusOr<SubmitResult> MergePartial(const std::string& site, Partial&& partial, std::span<const TaskRecord> records,
                                      bool kept = false) EXCLUDES(mutex_);
  // Reads a state, only for a task of this site, so that no site can read the state of another one's clients.
  StatusOr<std::string> ReadState(const Caller& caller, const BlobId& blob) EXCLUDES(mutex_);
  // The input of a step, for the client of its task alone. Null: this caller has no such blob.
  std::shared_ptr<const std::string> StepInput(const Caller& caller, const BlobId& blob) EXCLUDES(mutex_);
  // Counter of the bytes that the client's task downloads; null: it has no task.
  std::shared_ptr<std::atomic<int64_t>> DownloadCounter(const std::string& client_id) EXCLUDES(mutex_);
  void AwaitWork(uint64_t epoch, int64_t timeout_ms) EXCLUDES(mutex_);
  void SetListener(NewsListener* listener) EXCLUDES(mutex_);

  // --- Admission
  bool Begin() override EXCLUDES(mutex_);
  bool Over() override { return over(); }
  bool Knows(const std::string& client_id) override EXCLUDES(mutex_);
  std::string ViaOf(const std::string& client_id) override EXCLUDES(mutex_);
  Status MayJoin(const std::string& client_id, int64_t others) override EXCLUDES(mutex_);
  std::pair<int64_t, int64_t> NextDraw() override EXCLUDES(mutex_);
  std::string Join(std::vector<std::string> client_ids, const std::string& via) override EXCLUDES(mutex_);
  void LoseSite(const std::string& site) override EXCLUDES(mutex_);
  void Leave(const std::string& client_id, const std::string& reason) override EXCLUDES(mutex_);
  int64_t Round() override EXCLUDES(mutex_);
  void AwaitRecovered() override EXCLUDES(mutex_);
  bool Answer(const PollRequest& request, const std::set<std::string_view>& refused, PollReply* reply) override
      EXCLUDES(mutex_);
  bool Superseding(const TaskId& task) override EXCLUDES(mutex_);

  // --- Operators
  void Steer(Steering steering) EXCLUDES(mutex_);
  void Stop() EXCLUDES(mutex_);
  RunStatus Standing() EXCLUDES(mutex_);
  bool over() const EXCLUDES(mutex_);
  bool stopped() const EXCLUDES(mutex_);

  // --- Accepted reports
  // The model that an open training task starts from; nullopt: the task is not open.
  std::optional<Digest> BaseOf(const TaskId& task) EXCLUDES(mutex_);
  // The version that a task starts from, if the task is still open and `base` is its model.
  StatusOr<int64_t> BaseOfRecoveredReport(const TaskId& task, const Digest& base) EXCLUDES(mutex_);
  bool IsMissing(const TaskId& task) EXCLUDES(mutex_);  // open, and no update of it is being aggregated
  struct Snapshot {
    int64_t round = 0;  // the round with whose rows it is stored
    std::set<TaskId> tasks;
    std::string bytes;
  };
  // Gives the state for a restart. Nullopt: rows of closed attempts must be written first. UNAVAILABLE: the run fails.
  StatusOr<std::optional<Snapshot>> Save() EXCLUDES(mutex_);
  // Waits a moment for the rows of an attempt that was just closed and is about to reach the writer.
  void AwaitWritten() EXCLUDES(mutex_);

  // --- The run's thread
  using Work = std::variant<AttemptJob, LeftReport>;
  // Waits for work. Commits come before deadlines, because a deadline of the attempt that is being committed no longer
  // applies. Both come before callbacks. Nullopt: the run is over.
  std::optional<Work> Next() EXCLUDES(mutex_);
  void Counted() EXCLUDES(mutex_);  // the report from Next is done
  void Wake() EXCLUDES(mutex_);     // Next checks for work again
  bool remembers() const EXCLUDES(mutex_);
  // Marks an attempt as closed. `version`, if present, becomes the current one.
  void AttemptIsOver(const std::optional<ServedVersion>& version) EXCLUDES(mutex_);
  // Starts what follows. `room` is memory for the answer and is returned. `status` not OK: the run fails. `snapshot`:
  // empty, or the state for a restart; it is left empty if `alone` is true and the rows suffice to resume.
  struct GoneOn {
    std::string snapshot;
    std::vector<int64_t> needed;
  };
  GoneOn GoOn(const Event& done, const Status& status, bool alone, std::vector<Action>* room) EXCLUDES(mutex_);
  void Written(std::span<const PendingAttempt> attempts) EXCLUDES(mutex_);
  void CannotWrite(const Status& status) EXCLUDES(mutex_);
  std::optional<int64_t> OldestToMeasure() const EXCLUDES(mutex_);
  struct Ending {
    RunMachine::Phase phase = RunMachine::Phase::kFinished;
    std::string reason;
    int64_t round = 0;  // the last committed one
    Status failure;     // why, with its code
  };
  Ending ending() const EXCLUDES(mutex_);

 private:
  // rounds.cc
  std::vector<Action> Feed(const Event& event, std::vector<Action> room = {}) REQUIRES(mutex_);
  std::shared_ptr<Attempt>& AttemptOf(TaskKind kind) REQUIRES(mutex_) {
    return kind == TaskKind::kTrain ? attempt_ : evaluation_;
  }
  const std::shared_ptr<Attempt>& AttemptOf(TaskKind kind) const REQUIRES(mutex_) {
    return kind == TaskKind::kTrain ? attempt_ : evaluation_;
  }
  std::shared_ptr<Attempt> AttemptOf(const TaskId& task) REQUIRES(mutex_);  // of an open task; null: none
  TaskEntry* EntryOf(const TaskId& task) REQUIRES(mutex_);                  // in an open attempt; null: it is in none
  // Whether a site that lists this task can have received it with its present base version.
  bool MayHave(const TaskId& task) REQUIRES(mutex_);
  void BeginAttempt(TaskKind kind, int64_t round, int64_t number) REQUIRES(mutex_);
  void BeginTask(const Offer& offer) REQUIRES(mutex_);
  std::shared_ptr<Attempt> CloseAttempt(const Close& close, std::span<const Lease> leases) REQUIRES(mutex_);
  void BeginRun() REQUIRES(mutex_);  // once, at the first call
  void TickIfDue() REQUIRES(mutex_);
  void TellProgress() REQUIRES(mutex_);  // of the open attempt
  void LogWaiting() REQUIRES(mutex_);
  TimeMs NextWake() const REQUIRES(mutex_);  // of the run's thread, without earlier events; 0: never
  bool RowsSufficeToResume() const REQUIRES(mutex_);

  // api.cc
  Task MakeTask(Offer offer) const REQUIRES(mutex_);
  StatusOr<SubmitResult> ResultOfRefused(const Refuse& refusal) EXCLUDES(mutex_);
  StatusOr<Intake::Begun> Begin(const Caller& caller, const Submission& submission) EXCLUDES(mutex_);
  StatusOr<Intake::Begun> BeginUpdate(const Caller& caller, const Submission& submission) EXCLUDES(mutex_);
  StatusOr<SubmitResult> TakeUpdate(const Upload::Whole& whole, StatusOr<ArrivedUpdate> update) EXCLUDES(mutex_);

  // in_place.cc
  Status CheckNumbers(const TaskId& task, const Scalars& declared) const REQUIRES(mutex_);
  void Record(Attempt& attempt, const TaskRecord& record) REQUIRES(mutex_);

  // site_partials.cc
  StatusOr<Intake::Begun> BeginPartial(const Caller& caller, const Submission& submission) EXCLUDES(mutex_);
  StatusOr<SubmitResult> TakePartial(const std::shared_ptr<Attempt>& attempt, const Caller& caller,
                                     const std::string& key, StatusOr<SitePartial> site,
                                     std::span<const std::byte> bytes, const Intake::Release& release) EXCLUDES(mutex_);

  // secure_steps.cc
  StatusOr<Intake::Begun> BeginStepAnswer(const Caller& caller, const Submission& submission) EXCLUDES(mutex_);
  SubmitResult TakeStepAnswer(const std::shared_ptr<Attempt>& attempt, const Submission& submission,
                              const std::string& client_id, std::span<const std::byte> bytes) EXCLUDES(mutex_);
  SubmitResult TakeWords(const std::shared_ptr<Attempt>& attempt, const TaskId& task, const std::string& client_id,
                         std::span<const std::byte> bytes) EXCLUDES(mutex_);
  StatusOr<Intake::Begun> BeginSummedWords(const std::shared_ptr<Attempt>& attempt, const Caller& caller,
                                           const Submission& submission) REQUIRES(mutex_);
  StatusOr<SubmitResult> TakeSummedWords(const std::shared_ptr<Attempt>& attempt, const std::string& aggregator,
                                         const secure::SummedWordsMessage& words) EXCLUDES(mutex_);
  Status SettleSum(Attempt& attempt) EXCLUDES(mutex_);
  // The next step of the machine; the protocol's server half begins it too.
  struct NextStep {
    int step = 0;
    std::set<std::string, std::less<>> clients;  // that continue
  };
  void BeginSecureStep(TaskKind kind, const NextStep& next, std::vector<Action>& actions) REQUIRES(mutex_);
  void AddStepInput(Task& task) const REQUIRES(mutex_);

  // site_states.cc
  StatusOr<Intake::Begun> BeginState(const Caller& caller, const Submission& submission) EXCLUDES(mutex_);
  StatusOr<SubmitResult> TakeState(const std::shared_ptr<Attempt>& attempt, const TaskId& task, const std::string& key,
                                   std::string state) EXCLUDES(mutex_);

  // steering.cc
  std::string WhatIsAwaited() REQUIRES(mutex_);

  const std::string run_id_;
  const CoordinatorOptions& options_;
  const RunParts& parts_;
  const NumberRule* const number_rule_;
  const bool resumed_;
  const int64_t first_version_;  // that this process may make
  const int64_t max_update_bytes_, max_partial_bytes_;
  const RunClock& clock_;
  RunEvents& events_;
  Versions& versions_;
  Intake& intake_;
  ClientStates& states_;
  AcceptedReports& reports_;
  Clients& clients_;

  mutable Mutex mutex_;
  CondVar changed_;
  RunMachine machine_ GUARDED_BY(mutex_);
  bool begun_ GUARDED_BY(mutex_) = false;
  Status failure_ GUARDED_BY(mutex_);               // why the run fails, with its code
  int64_t unwritten_ GUARDED_BY(mutex_) = 0;        // closed attempts without written rows
  std::deque<LeftReport> left_ GUARDED_BY(mutex_);  // for the run's thread; the first is being aggregated
  bool sent_away_ GUARDED_BY(mutex_) = false;       // a member was removed
  // The training attempt, with all open tasks; while a version is being made and tasks outlive it, the next attempt.
  std::shared_ptr<Attempt> attempt_ GUARDED_BY(mutex_);
  std::shared_ptr<Attempt> evaluation_ GUARDED_BY(mutex_);  // the measuring of a version beside it
  std::deque<AttemptJob> jobs_ GUARDED_BY(mutex_);
  TimeMs wake_at_ GUARDED_BY(mutex_) = 0;  // 0: never
  CondVar work_;                           // of epoch_
  uint64_t epoch_ GUARDED_BY(mutex_) = 1;  // counts the changes that a waiting site should see
  NewsListener* listener_ GUARDED_BY(mutex_) = nullptr;
  std::set<std::string> aggregators_ GUARDED_BY(mutex_);  // that have polled
  RunStatus::Totals totals_ GUARDED_BY(mutex_);
};

}  // namespace rivulet
