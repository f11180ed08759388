// Replacement of the coordinator for the sites of this process. It gives them the tasks of one step after another, and
// collects their partial sums by gathering, and their failures. Another rank has drawn the tasks.
//
//   Do(tasks) ─→ Poll … SubmitInPlace | Fail   until every task has ended one way or the other ─→ Done
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/base/mutex.h"
#include "federated/aggregation/aggregation.h"
#include "federated/plan/plan.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// Inputs of tasks in this process. Thread-safe.
class TaskInputs {
 public:
  virtual ~TaskInputs() = default;
  virtual StatusOr<std::shared_ptr<const Model>> ModelOf(const BlobId& id) = 0;
  virtual StatusOr<std::string> BytesOf(const BlobId& id) = 0;
};

// A set of tasks that share a partial sum: those of one attempt, from one base version.
struct TaskGathering {
  uint64_t gather = 0;
  TaskKind kind = TaskKind::kTrain;
  int64_t base_version = 0;
};

// Server of tasks to local sites. Thread-safe.
class LocalTaskServer final : public CoordinatorApi {
 public:
  struct Folded {
    Partial partial;
    std::vector<TaskRecord> records;
  };
  struct Done {
    std::map<uint64_t, Folded> folded;  // by gathering; none is empty
    std::vector<TaskFailure> failures;
  };

  // Both must outlive it. `sites`: their number; they get tasks a few at a time.
  LocalTaskServer(const Plan& plan, TaskInputs& inputs, int sites) : plan_(plan), inputs_(inputs), sites_(sites) {}

  // Waits until all of them have ended. The error is that of End.
  StatusOr<Done> Do(std::vector<Task> tasks);
  // Ends the run for the sites; Do then returns `status`.
  void End(const Status& status);

  StatusOr<PollReply> Poll(const PollRequest& request) override;
  void AwaitWork(const Caller& caller, uint64_t epoch, int64_t timeout_ms) override;
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller& caller, const BlobId& blob, int64_t offset) override;
  StatusOr<std::shared_ptr<const Model>> FetchInPlace(const Caller& caller, const BlobId& blob) override;
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override;
  StatusOr<SubmitResult> SubmitInPlace(const Caller& caller, Partial&& partial,
                                       std::span<const TaskRecord> records) override;
  Status Fail(const Caller& caller, const TaskFailure& failure) override;

 private:
  struct Open {
    TaskGathering gathering;
    std::unique_ptr<Aggregation> aggregation;
    std::vector<TaskRecord> records;
  };
  bool all_trained() const REQUIRES(mutex_) { return queue_.empty() && training_.empty(); }
  void News() REQUIRES(mutex_);

  const Plan& plan_;
  TaskInputs& inputs_;
  const int sites_;
  Mutex mutex_;
  CondVar news_;
  uint64_t epoch_ GUARDED_BY(mutex_) = 1;
  bool over_ GUARDED_BY(mutex_) = false;
  Status error_ GUARDED_BY(mutex_);
  std::deque<Task> queue_ GUARDED_BY(mutex_);
  std::set<TaskId> training_ GUARDED_BY(mutex_);
  std::map<TaskId, uint64_t> gather_ GUARDED_BY(mutex_);                // of every task of the step
  std::map<std::string, std::vector<TaskId>> held_ GUARDED_BY(mutex_);  // by site
  size_t left_ GUARDED_BY(mutex_) = 0;                                  // not ended yet
  std::map<uint64_t, Open> open_ GUARDED_BY(mutex_);
  std::vector<TaskFailure> failures_ GUARDED_BY(mutex_);
};

}  // namespace rivulet
