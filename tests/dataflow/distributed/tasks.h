// Tasks of a cluster within one process, for tests.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "dataflow/distributed/graph_worker.h"
#include "dataflow/distributed/master_session.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {

// Waits for a callback of one value.
template <typename Value>
class Answer {
 public:
  std::function<void(Value)> Callback() {
    return [state = state_](Value value) {
      const std::lock_guard<std::mutex> lock(state->mutex);
      state->value.emplace(std::move(value));
      state->changed.notify_all();
    };
  }
  Value Get() {
    std::unique_lock<std::mutex> lock(state_->mutex);
    state_->changed.wait(lock, [&] { return state_->value.has_value(); });
    return std::move(*state_->value);
  }
  bool here() const {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    return state_->value.has_value();
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<Value> value;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

inline StatusOr<std::vector<Tensor>> RunStep(MasterSession& session, MasterStep step,
                                             const CancellationToken& cancel = {}) {
  Answer<StatusOr<std::vector<Tensor>>> answer;
  session.RunStep(std::move(step), cancel, answer.Callback());
  return answer.Get();
}

inline StatusOr<std::vector<Tensor>> RunPartialStep(MasterSession& session, const std::string& handle,
                                                    MasterStep step) {
  Answer<StatusOr<std::vector<Tensor>>> answer;
  session.RunPartialStep(handle, std::move(step), {}, answer.Callback());
  return answer.Get();
}

// Tasks "/job:worker/replica:0/task:0" and so on.
class Tasks {
 public:
  explicit Tasks(int count, GraphWorkerOptions options = {}) {
    for (int i = 0; i < count; ++i) {
      options.task = fmt::format("/job:worker/replica:0/task:{}", i);
      auto worker = GraphWorker::Create(options, [this](const std::string& task) -> std::shared_ptr<RemoteTask> {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = workers_.find(task);
        return found == workers_.end() ? nullptr : found->second;
      });
      EXPECT_OK(worker);
      const std::lock_guard<std::mutex> lock(mutex_);
      workers_[options.task] = *std::move(worker);
    }
  }
  // Pending waits refer to the tasks.
  ~Tasks() {
    std::map<std::string, std::shared_ptr<GraphWorker>> gone;
    const std::lock_guard<std::mutex> lock(mutex_);
    gone.swap(workers_);
  }
  std::shared_ptr<GraphWorker> operator[](int i) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return workers_.at(fmt::format("/job:worker/replica:0/task:{}", i));
  }
  std::vector<std::shared_ptr<RemoteTask>> all() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::shared_ptr<RemoteTask>> tasks;
    for (const auto& [name, worker] : workers_) tasks.push_back(worker);
    return tasks;
  }
  StatusOr<std::shared_ptr<MasterSession>> Session(Graph graph, MasterSessionOptions options = {}) const {
    static int number = 0;
    if (options.handle.empty()) options.handle = fmt::format("session_{}", ++number);
    return MasterSession::Create(std::move(graph), std::move(options), all());
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<GraphWorker>> workers_;
};

}  // namespace rivulet::testing
