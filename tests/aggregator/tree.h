// Aggregators and clients in one process: clients with invented deltas call aggregators, which call a coordinator.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "aggregator/aggregator.h"
#include "federated/download/download.h"
#include "tests/coordinator/test_run.h"

namespace rivulet {

// An address whose server may be replaced or absent. Calls hold it, so that it is not replaced during a call.
class Address {
 public:
  void Set(CoordinatorApi* api) {
    changing_ = true;  // a lock prefers readers, and there is always one
    std::unique_lock lock(mutex_);
    api_ = api;
    changing_ = false;
  }
  template <typename Call>
  auto Do(const Call& call) -> decltype(call(std::declval<CoordinatorApi&>())) {
    if (changing_) return Unavailable("nobody listens there");
    std::shared_lock lock(mutex_);
    if (api_ == nullptr) return Unavailable("nobody listens there");
    return call(*api_);
  }

 private:
  std::atomic<bool> changing_ = false;
  std::shared_mutex mutex_;
  CoordinatorApi* api_ = nullptr;
};

// Access to an aggregator's parent, which may be replaced.
class ThroughAddress final : public CoordinatorApi {
 public:
  explicit ThroughAddress(Address& address) : address_(address) {}
  StatusOr<PollReply> Poll(const PollRequest& request) override {
    return address_.Do([&](CoordinatorApi& api) { return api.Poll(request); });
  }
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller& caller, const BlobId& blob, int64_t offset) override {
    return address_.Do([&](CoordinatorApi& api) { return api.Fetch(caller, blob, offset); });
  }
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override {
    return address_.Do([&](CoordinatorApi& api) { return api.Submit(caller, submission); });
  }
  Status Fail(const Caller& caller, const TaskFailure& failure) override {
    return address_.Do([&](CoordinatorApi& api) { return api.Fail(caller, failure); });
  }
  void AwaitWork(const Caller& caller, uint64_t epoch, int64_t) override {
    (void)address_.Do([&](CoordinatorApi& api) -> Status {
      api.AwaitWork(caller, epoch, 2);
      return absl::OkStatus();
    });
  }

 private:
  Address& address_;
};

class RunningAggregator {
 public:
  RunningAggregator(CoordinatorApi& parent, const std::string& name, const RunParts& parts, const std::string& folder,
                    FileSystem* file_system = nullptr)
      : aggregator_(parent, {.name = name,
                             .version = "test",
                             .folder = folder,
                             .state = JoinPath(folder, name),
                             .file_system = file_system,
                             .calls = {.backoff = {.initial_ms = 1, .max_ms = 5}},
                             .on_event =
                                 [this](const std::string&, const std::string& sentence) {
                                   MutexLock lock(mutex_);
                                   said_.push_back(sentence);
                                 },
                             .read_plan = [parts](const std::string&) -> StatusOr<AggregatorPlan> {
                               return AggregatorPlan{parts.aggregation, parts.evaluation, kAnyBytes, kAnyBytes};
                             }}),
        thread_([this] { status_ = aggregator_.Run(); }) {}
  ~RunningAggregator() {
    aggregator_.Stop();
    (void)End();
  }
  Status End() {
    if (thread_.joinable()) thread_.join();
    return status_;
  }
  Aggregator& aggregator() { return aggregator_; }
  std::vector<std::string> said() {
    MutexLock lock(mutex_);
    return said_;
  }

 private:
  Mutex mutex_;
  std::vector<std::string> said_;
  Aggregator aggregator_;
  Status status_;
  std::thread thread_;
};

// Acknowledged updates as remembered by clients. Thread-safe.
class Acknowledgements {
 public:
  // A client starts the task.
  void Given(const TaskId& task) {
    MutexLock lock(mutex_);
    if (tasks_.contains(task)) asked_again_.insert(task);
  }
  void Acknowledged(const TaskId& task) {
    MutexLock lock(mutex_);
    tasks_.insert(task);
  }
  std::set<TaskId> tasks() {
    MutexLock lock(mutex_);
    return tasks_;
  }
  std::set<TaskId> asked_again() {
    MutexLock lock(mutex_);
    return asked_again_;
  }

 private:
  Mutex mutex_;
  std::set<TaskId> tasks_, asked_again_;
};

// The version that a task starts from, decoded by a client of these parts from the received bytes.
inline StatusOr<std::shared_ptr<const Model>> BaseOf(const RunParts& parts, std::string_view bytes) {
  RIVULET_ASSIGN_OR_RETURN(const auto download, Download::Create(parts.download, parts.layout));
  if (download != nullptr) return download->Decode(bytes);
  return ModelFromSafetensors(parts.layout, bytes);
}

// If the parts have several updates, every second client uses the second one and the others the first.
inline std::string UpdateOf(const RunParts& parts, const std::string& name, const Task& task, const Model& base) {
  const int64_t number = name.back() - '0', examples = 10 + number;
  const std::vector<PartSpec>& specs = parts.aggregation.parts;
  const std::string update = MakeUpdate(FakeDelta(task, base), examples);
  if (!specs[0].only_where) return update;
  const PartSpec& chosen = specs[static_cast<size_t>(number % 2)];
  proto::Update message;
  EXPECT_TRUE(message.ParseFromString(update));
  message.mutable_parts(0)->set_name(chosen.name);
  (*message.mutable_scalars())[chosen.only_where->scalar] = chosen.only_where->value;
  return message.SerializeAsString();
}

inline StatusOr<SubmitResult> WorkOn(CoordinatorApi& api, const std::string& name, const Task& task,
                                     const RunParts& parts) {
  RIVULET_ASSIGN_OR_RETURN(const auto reader, api.Fetch(As(name), task.input("model")->id, 0));
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes, ReadToEnd(*reader));
  RIVULET_ASSIGN_OR_RETURN(const auto model, BaseOf(parts, bytes));
  for (const std::string& vector : parts.broadcasts) {
    const NamedBlob* const blob = task.input(fmt::format("broadcast/{}", vector));
    if (blob == nullptr) return Internal("task '{}' brings no '{}'", task.id, vector);
    RIVULET_ASSIGN_OR_RETURN(const auto sent, api.Fetch(As(name), blob->id, 0));
    RIVULET_ASSIGN_OR_RETURN(const std::string values, ReadToEnd(*sent));
    if (Sha256Of(values) != blob->id.digest) return Internal("'{}' is another than the task's", vector);
  }
  return Send(api, name, task.id, UpdateOf(parts, name, task, *model));
}

// Runs one client until the run is over. Calls are independent, so that the server may be replaced between two.
inline Status LiveAsClient(Address& address, const std::string& name, const RunParts& parts,
                           Acknowledgements* remembered = nullptr) {
  std::shared_ptr<const Model> base;
  for (;;) {
    const auto reply = address.Do([&](CoordinatorApi& api) { return api.Poll(AskedBy(name)); });
    if (absl::IsUnavailable(reply.status())) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    RIVULET_RETURN_IF_ERROR(reply.status());
    if (reply->over) return absl::OkStatus();
    if (reply->tasks.empty()) {
      (void)address.Do([&](CoordinatorApi& api) -> Status {
        api.AwaitWork(As(name), reply->epoch, 2);
        return absl::OkStatus();
      });
      continue;
    }
    const Task& task = reply->tasks[0];
    if (remembered != nullptr) remembered->Given(task.id);
    const Status worked = address.Do([&](CoordinatorApi& api) -> Status {
      RIVULET_ASSIGN_OR_RETURN(const SubmitResult result, WorkOn(api, name, task, parts));
      if (remembered != nullptr && result.kind == SubmitResult::Kind::kAccepted) remembered->Acknowledged(task.id);
      return absl::OkStatus();
    });
    if (!worked.ok() && !absl::IsUnavailable(worked) && !absl::IsNotFound(worked)) return worked;
  }
}

}  // namespace rivulet
