// An aggregator: a site towards its coordinator, and a coordinator towards its clients. It serves its clients as a
// coordinator does (polls, fetches, staged uploads, the same checks). It adds their updates to one exact partial sum
// per gathering, with a record a task, and submits that sum on request. Its coordinator may be another aggregator. Sums
// are integers, so the model's bits do not depend on the number of aggregators.
//
//   clients' polls ──→ reported above (Serves::kNames) ──→ tasks of these clients ──→ fetched once, passed on
//   clients' uploads ─→ staged, checked, folded ──→ reported as held ──→ requested ──→ sent as one partial sum
//   aggregators' partial sums ──→ staged, checked, merged ─┘
//
// Under secure aggregation it passes on the steps of its clients, adds their masked words and knows no secret. Words
// that it loses cannot be made again, so their clients drop out.
//
// It makes no decision about a round. The coordinator draws and replaces clients, and sets deadlines: the aggregator
// names a task above while its client calls, and the task lapses there when the client is silent. An aggregator may
// lose updates (it was restarted, or a partial sum could not be stored). It then reports them as no longer held, and
// the same clients send their stored updates again without training.
//
// If no acknowledged update may be lost (Task::keep), an update is on this aggregator's disk before it is folded, as it
// was on its client's (client/agent/persisted_updates.h). It stays until its outcome above is final. When its task is
// assigned again, to this process or to the next, it is folded from disk and no client is asked. So a partial sum need
// not be stored on its way up: after a loss the tasks are assigned again, down to the aggregator with the updates. The
// alternative, to acknowledge only updates that have arrived above, would block every client until its round is closed.
//
// Memory: a partial sum per gathering, the inputs of its tasks (the plan, a model or two), the staging budget.
#pragma once

#include <chrono>
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

#include "client/agent/persisted_updates.h"
#include "client/calls/coordinator_calls.h"
#include "client/calls/stop_signal.h"
#include "coordinator/intake/aggregator_sessions.h"
#include "coordinator/intake/intake.h"
#include "coordinator/intake/round_accumulator.h"
#include "engine/base/mutex.h"
#include "engine/base/rate_limited_log.h"
#include "federated/aggregation/aggregation.h"
#include "federated/secure/protocol.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// All that an aggregator reads of a plan.
struct AggregatorPlan {
  AggregationSpec training, evaluation;
  int64_t most_model_bytes = 0, most_broadcast_bytes = 0;  // federated/plan/download_bounds.h
  const AggregationSpec& of(TaskKind kind) const { return kind == TaskKind::kTrain ? training : evaluation; }
};

struct AggregatorOptions {
  std::string name;
  std::string version;                // of this software
  std::string folder;                 // of unnamed files with uploads beyond the staging budget
  std::string state;                  // folder of stored updates; made for the first one
  FileSystem* file_system = nullptr;  // of `state`; null: the machine's
  int64_t staging_bytes = 64'000'000;
  // To the parent; on_retry is the aggregator's own. All that is fetched and kept has at most max_download_bytes.
  CallOptions calls;
  int64_t hold_ms = 20'000;  // how long a poll may wait for its answer when there is nothing to do
  // Log messages: "info", "warning". Called on any thread, without the aggregator's lock.
  std::function<void(const std::string& level, const std::string& sentence)> on_event;
  // Null: of a plan's bytes (Plan::Open).
  std::function<StatusOr<AggregatorPlan>(std::string bytes)> read_plan;
};

// Thread-safe. Readers and writers that it gave out must be gone before it is destroyed.
class Aggregator final : public CoordinatorApi {
 public:
  // `parent` must outlive the aggregator, as must its listener until SetListener.
  Aggregator(CoordinatorApi& parent, AggregatorOptions options);
  ~Aggregator() override;

  // Works until the run is over: OK, also if the run failed (over() tells). CANCELLED after Stop; held updates are then
  // lost, and the same clients send them again. Otherwise the parent's error; PERMISSION_DENIED: it admits no such
  // aggregator, or not this one any more, because it refused its partial sum.
  Status Run();
  void Stop() EXCLUDES(mutex_);
  std::optional<PollReply::Over> over() const;

  // As a coordinator's. A client refused by the parent receives the reason at its next poll.
  StatusOr<PollReply> Poll(const PollRequest& request) override;
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller& caller, const BlobId& blob, int64_t offset) override;
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override;
  Status Fail(const Caller& caller, const TaskFailure& failure) override;
  void AwaitWork(const Caller& caller, uint64_t epoch, int64_t timeout_ms) override;
  void SetListener(NewsListener* listener) override;

 private:
  using Clock = std::chrono::steady_clock;
  // A client that calls here, or through another aggregator.
  struct Member {
    std::string below;  // that aggregator; "": it calls itself
    std::vector<DatasetOffer> datasets;
    Clock::time_point called;
    bool confirmed = false;  // the parent has answered a poll that named it, so its tasks are known
    Status refused;          // by the parent
    std::optional<TaskOutcome> outcome;
  };
  // A task of a client, from when the parent gives it.
  struct Job {
    enum class Stage : uint8_t {
      kFetched,  // its inputs are being fetched
      kOffered,  // waits for its client's poll
      kGiven,
      kFolding,
      kAnswered,  // of a task in steps: the parent has this step's answer
      kHeld,      // in its gathering's sum
      kSending,   // on its way to the parent
    } stage = Stage::kFetched;
    Task task;
    bool heard = false;       // of its client, since the last report to the parent
    bool held_below = false;  // by the aggregator that serves the client
    bool brought = false;     // its words, by this process: the parent has them
    bool kept = false;        // its update is on disk
  };
  // The tasks of one partial sum, or of one sum of masked words; of those the records have names alone.
  struct Gathering {
    std::unique_ptr<RoundAccumulator> pot;  // null: of words
    Mutex words_mutex;                      // after the aggregator's
    std::vector<std::byte> words GUARDED_BY(words_mutex);
    int64_t base_version = 0;
    std::vector<TaskRecord> records;
    int folding = 0;    // that are being added
    bool gone = false;  // it has unwanted updates, and none can be removed
  };
  using Errand = std::function<Status(CoordinatorCalls& calls)>;  // to the parent, and long

  // aggregator.cc: the side of the parent. Three threads, because news, reports, and transfers of models and partial
  // sums must not wait for each other.
  void Listen();  // holds a poll open, for new tasks
  void Beat();    // reports the clients that have called and their tasks
  void End(const Status& status) EXCLUDES(mutex_);
  void NoteLost(const Status& status) EXCLUDES(mutex_);
  StatusOr<PollReply> Ask(CoordinatorCalls& calls, const PollRequest& request) EXCLUDES(mutex_);
  PollRequest Request() const REQUIRES(mutex_);
  PollRequest Saying() REQUIRES(mutex_);
  Clock::time_point NextBeat() const REQUIRES(mutex_);
  void Obey(const PollRequest& request, const PollReply& reply) REQUIRES(mutex_);
  void Begin(const Task& task) REQUIRES(mutex_);
  void HandOverIfWhole(const HandOver& wanted) REQUIRES(mutex_);
  void DropGathering(uint64_t gather) REQUIRES(mutex_);
  void OfferAgain(Job& job) REQUIRES(mutex_);
  void Erase(const TaskId& task) REQUIRES(mutex_);
  void ForgetRun() REQUIRES(mutex_);

  // parent_transfers.cc: long calls to the parent.
  void TransferLoop();
  void FailUp(TaskFailure failure) REQUIRES(mutex_);  // and forgets the task
  Status FetchFor(CoordinatorCalls& calls, const TaskId& task) EXCLUDES(mutex_);
  Status Bring(CoordinatorCalls& calls, uint64_t gather, Gathering& gathering) EXCLUDES(mutex_);
  StatusOr<std::string> FetchBlob(CoordinatorCalls& calls, const Caller& caller, const Digest& plan, const BlobId& blob,
                                  int step) EXCLUDES(mutex_);
  void ForgetBlobs() REQUIRES(mutex_);  // that no task names

  // api.cc: the side of the clients.
  Status CheckCall(const Caller& caller) const REQUIRES(mutex_);
  StatusOr<PollReply> PollOfClient(const PollRequest& request) REQUIRES(mutex_);
  StatusOr<PollReply> PollOfAggregator(const PollRequest& request, std::string* event) REQUIRES(mutex_);
  Status Hear(const ServedName& served, const std::string& below) REQUIRES(mutex_);
  void NoteWorkingOn(const PollRequest& request, std::set<TaskId>* named, PollReply* reply) REQUIRES(mutex_);
  void Give(const std::string& client_id, const std::set<TaskId>& named, int64_t* want, PollReply* reply)
      REQUIRES(mutex_);
  void AskHolder(const std::string& below, PollReply* reply) const REQUIRES(mutex_);
  const std::string& WayOf(const std::string& client_id) const REQUIRES(mutex_);  // the caller that serves the client
  void News(const std::string& client_id) REQUIRES(mutex_);
  Job* JobOf(const Caller& caller, const TaskId& task) REQUIRES(mutex_);  // null: it has no such task here
  StatusOr<Intake::Begun> Begin(const Caller& caller, const Submission& submission) EXCLUDES(mutex_);
  StatusOr<Intake::Begun> BeginUpload(const Caller& caller, const Submission& submission) REQUIRES(mutex_);
  // The answer to a submission of a task that is not here.
  StatusOr<Intake::Begun> WhereTaskIsUnknown(const Caller& caller, const TaskId& task) const REQUIRES(mutex_);
  StatusOr<std::shared_ptr<Gathering>> Open(const Task& task) REQUIRES(mutex_);
  StatusOr<SubmitResult> TakeUpdate(const Upload::Whole& whole, StatusOr<ArrivedUpdate> update) EXCLUDES(mutex_);
  // Starts the fold of a received update: gives its gathering and sets its stage to kFolding; null if `result` has the
  // reason against it.
  std::shared_ptr<Gathering> Admit(const TaskId& task, StatusOr<ArrivedUpdate>& update, Task* of, SubmitResult* result)
      REQUIRES(mutex_);
  SubmitResult FoldInto(const std::shared_ptr<Gathering>& gathering, const Task& of, ArrivedUpdate update)
      EXCLUDES(mutex_);

  // secure_steps.cc: secure aggregation.
  const secure::SecureProtocol* ProtocolOf(const Task& task) const REQUIRES(mutex_);
  static bool BeginNextStep(Job& job, const Task& task);  // false: it is none
  // The input of a step is for its client alone.
  bool MayFetch(const Caller& caller, const BlobId& blob) const REQUIRES(mutex_);
  StatusOr<Intake::Begun> BeginStepAnswer(const Caller& caller, const Submission& submission) REQUIRES(mutex_);
  StatusOr<SubmitResult> RelayAnswer(const Submission& submission, std::span<const std::byte> bytes) EXCLUDES(mutex_);
  StatusOr<SubmitResult> TakeWords(const Submission& submission, std::span<const std::byte> bytes) EXCLUDES(mutex_);
  std::shared_ptr<Gathering> OpenWords(const Task& task) REQUIRES(mutex_);
  static void AddTo(Gathering& gathering, std::span<const std::byte> words, int word_bits);
  // Of `tasks`, which are like `of`, the words are in the sum. False: they are not wanted.
  bool Hold(Gathering& gathering, const Task& of, std::span<const TaskId> tasks) REQUIRES(mutex_);
  void LoseWords(const TaskId& task) REQUIRES(mutex_);
  // Which are neither here nor above: of a process before this one, or of a parent before its own.
  void LoseWordsThatAreGone(const HandOver& wanted) REQUIRES(mutex_);
  // What a caller says of its answer to the step that `job` is at.
  void NoteAnswered(Job& job, bool below) REQUIRES(mutex_);
  Status BringWords(CoordinatorCalls& calls, uint64_t gather, Gathering& gathering) EXCLUDES(mutex_);
  StatusOr<Intake::Begun> BeginSummedWords(const Caller& caller, const Submission& submission, const Task& one)
      REQUIRES(mutex_);
  StatusOr<SubmitResult> TakeSummedWords(const Caller& caller, const Task& one, std::span<const std::byte> bytes,
                                         size_t word_bytes) EXCLUDES(mutex_);

  // persisted_updates.cc: updates on disk.
  PersistedUpdates PersistedOf(const std::string& client_id) const;
  Status MakeFolder() EXCLUDES(folder_mutex_);
  Status Keep(const Task& task, const Upload::Whole& whole) EXCLUDES(mutex_);
  Status CountKept(const TaskId& task) EXCLUDES(mutex_);  // folds the stored update
  void Settle(const TaskOutcome& outcome) REQUIRES(mutex_);

  // partials.cc: of the aggregators below.
  Status AdmitAggregator(const PollRequest& request, std::string* event) REQUIRES(mutex_);
  StatusOr<Intake::Begun> BeginPartial(const Caller& caller, const Submission& submission) REQUIRES(mutex_);
  StatusOr<SubmitResult> TakePartial(const Caller& caller, const Task& one, StatusOr<SitePartial> site)
      EXCLUDES(mutex_);
  void Tell(const char* level, const std::string& sentence) const EXCLUDES(mutex_);

  CoordinatorApi& parent_;
  const AggregatorOptions options_;
  const uint64_t session_;
  StopSignal stop_;
  Intake intake_;
  Mutex folder_mutex_;
  bool folder_made_ GUARDED_BY(folder_mutex_) = false;  // of the stored updates
  mutable Mutex mutex_;
  CondVar changed_;
  std::string run_id_ GUARDED_BY(mutex_);
  bool ended_ GUARDED_BY(mutex_) = false;
  Status result_ GUARDED_BY(mutex_);
  std::optional<PollReply::Over> over_ GUARDED_BY(mutex_);
  std::string awaited_ GUARDED_BY(mutex_);
  bool lost_ GUARDED_BY(mutex_) = false;       // the parent cannot be reached
  int64_t beat_ms_ GUARDED_BY(mutex_) = 1000;  // interval of heartbeats for a task
  Clock::time_point beaten_ GUARDED_BY(mutex_);
  bool dirty_ GUARDED_BY(mutex_) = false;           // there is something that the parent waits for
  std::set<std::string> heard_ GUARDED_BY(mutex_);  // have called since the last report to the parent
  std::map<std::string, Member> members_ GUARDED_BY(mutex_);
  AggregatorSessions below_ GUARDED_BY(mutex_);  // of aggregators that call
  std::map<TaskId, Job> jobs_ GUARDED_BY(mutex_);
  std::map<std::string, std::set<TaskId>> jobs_of_ GUARDED_BY(mutex_);  // by client
  std::map<uint64_t, std::shared_ptr<Gathering>> gatherings_ GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<const std::string>> blobs_ GUARDED_BY(mutex_);  // by KeyOf
  std::map<Digest, AggregatorPlan> plans_ GUARDED_BY(mutex_);
  std::deque<Errand> errands_ GUARDED_BY(mutex_);
  int bringing_ GUARDED_BY(mutex_) = 0;  // partials on their way
  bool said_unkept_ GUARDED_BY(mutex_) = false;
  NewsListener* listener_ GUARDED_BY(mutex_) = nullptr;
  uint64_t epoch_ GUARDED_BY(mutex_) = 1;  // counts news, for AwaitWork
  mutable RateLimitedLog warnings_;        // peers cause them, above and below
};

}  // namespace rivulet
