// Tasks of secure aggregation that a deployed client has begun: their halves (client/secure/secure_half.h) and the
// calls that send their steps to the coordinator. Secrets are in memory until the last answer; another process cannot
// continue a task.
//
//   Begin ──→ [training] ──→ SetWords ──→ … ──→ TakeEnded
//     └─ Take (a poll's reply), Answer: each step as its input comes, the sum's once the words are there
//
// A client may have one task of each kind under way: a training whose sum waits for others, and an evaluation beside
// it. While one is trained, the heartbeat's thread answers the steps of both (client/calls/heartbeat.h).
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/agent/answered_tasks.h"
#include "client/calls/coordinator_calls.h"
#include "client/calls/heartbeat.h"
#include "client/calls/stop_signal.h"
#include "client/secure/secure_half.h"
#include "client/training/task_trainer.h"
#include "engine/base/mutex.h"
#include "federated/plan/plan.h"

namespace rivulet {

// Identity of a client that takes part in secure sums.
struct SecureIdentity : SecureMember {
  // Whether polls never state the number of examples: for a site that takes part in secure sums alone. Another site
  // states it once it has read a plan without them, or if a coordinator refuses a client of one example.
  bool hides_examples = false;
  std::shared_ptr<AnsweredTasks> answered;
  // Called before the first secret of a task, such as ForbidCoreDumps; null: no call.
  std::function<Status()> protect = nullptr;
};

// The offers without their numbers of examples, as polls state them: one each.
std::vector<DatasetOffer> WithoutNumbers(std::vector<DatasetOffer> offers);

// Tasks in steps. Thread-safe. Take and Answer of two threads wait for each other; no other call waits for the network.
class SecureTasks final : public StepWork {
 public:
  // `api`, `stop` and `identity` must outlive this. `begun` is called when a task has begun, by the thread that begins
  // it.
  SecureTasks(CoordinatorApi& api, StopSignal& stop, CallOptions calls, const SecureIdentity& identity,
              std::function<void()> begun)
      : stop_(stop), identity_(identity), begun_(std::move(begun)), calls_(api, stop, WithFewTries(std::move(calls))) {}

  // OK: the client may train for this plan. FAILED_PRECONDITION: the plan is weaker than the site's policy, or the task
  // was answered before or is at a later step, which another process began.
  Status Check(const Plan& plan, const Task& task) const;
  // Begins a task at its first step, before its training. Errors as SecureHalf::Create.
  Status Begin(const Plan& plan, const Task& task) EXCLUDES(mutex_);
  // Sets its update's words, and the report for its end. Ignored if the task has ended meanwhile.
  void SetWords(const TaskId& task, std::string words, TaskReport report) EXCLUDES(mutex_);
  // Its training failed: its secrets are erased.
  void Drop(const TaskId& task) EXCLUDES(mutex_);

  // StepWork. Take also answers all ready steps; Answer alone is for steps without an input. During a training, words
  // of more than kMostWordsBeside bytes wait: their upload would delay the renewal of the training's lease.
  std::vector<TaskProgress> InHand() const override EXCLUDES(mutex_);
  void Take(const Caller& caller, const PollReply& reply, bool beside) override EXCLUDES(calls_mutex_, mutex_);
  void Answer(const Caller& caller, bool beside) override EXCLUDES(calls_mutex_, mutex_);

  bool HasUnsent() const override EXCLUDES(mutex_);

  // Whether words wait that Answer(caller, true) would not send.
  bool HasLongAnswer() const EXCLUDES(mutex_);

  // Tasks that have ended, each reported once.
  struct Ended {
    Task task;
    TaskReport report;
  };
  std::vector<Ended> TakeEnded() EXCLUDES(mutex_);
  std::optional<TaskReport> TakeEnded(const TaskId& task) EXCLUDES(mutex_);
  // PERMISSION_DENIED or UNAUTHENTICATED: the coordinator has rejected this client.
  Status rejected() const EXCLUDES(mutex_);

 private:
  static constexpr size_t kMostWordsBeside = 65'536;
  struct InSteps {
    InSteps(Task of, std::unique_ptr<SecureHalf> made) : task(std::move(of)), half(std::move(made)) {}
    const Task task;
    // Used by the answering thread, under calls_mutex_.
    const std::unique_ptr<SecureHalf> half;
    std::shared_ptr<const std::string> unsent;  // the answer to `next`, until it has arrived
    int64_t most_members = 0;
    // Guarded by mutex_.
    int next = 0;                 // the next step to answer
    std::optional<BlobId> input;  // the input of that step; step 0 has none
    std::string words = {};       // until the sum's step takes them
    size_t word_bytes = 0;
    bool trained = false;
    bool unsent_waits = false;  // the last call for it failed, and another may succeed
    TaskReport report = {};
  };
  // A running call shares the task that it answers, which may be dropped meanwhile.
  using SharedInSteps = std::shared_ptr<InSteps>;
  // The client polls between tries: a restarted server does not know its task before that.
  static CallOptions WithFewTries(CallOptions calls);
  bool Ready(const InSteps& in, bool beside) const REQUIRES(mutex_);
  bool Holds(const InSteps& in) const REQUIRES(mutex_);
  // Answers each step that is ready, once.
  void AnswerAll(const Caller& caller, bool beside) REQUIRES(calls_mutex_) EXCLUDES(mutex_);
  void AnswerOne(const Caller& caller, InSteps& in) REQUIRES(calls_mutex_) EXCLUDES(mutex_);
  StatusOr<SubmitResult> AnswerStep(const Caller& caller, InSteps& in) REQUIRES(calls_mutex_) EXCLUDES(mutex_);
  void FailTask(const Caller& caller, InSteps& in, const Status& status) REQUIRES(calls_mutex_) EXCLUDES(mutex_);
  // Drops the task and reports its end, if it is still held.
  void End(InSteps& in, TaskReport::Kind kind, std::string reason) REQUIRES(mutex_);

  StopSignal& stop_;
  const SecureIdentity& identity_;
  const std::function<void()> begun_;
  Mutex calls_mutex_;  // taken before mutex_
  CoordinatorCalls calls_ GUARDED_BY(calls_mutex_);
  mutable Mutex mutex_;
  std::map<TaskId, SharedInSteps> tasks_ GUARDED_BY(mutex_);
  std::vector<Ended> ended_ GUARDED_BY(mutex_);
  Status rejected_ GUARDED_BY(mutex_);
};

}  // namespace rivulet
