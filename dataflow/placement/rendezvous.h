// Exchange of tensors between the devices of one run. A send stores its tensor under a key and the receive of that key
// takes it, in either order.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "dataflow/resources/memory_budget.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "engine/program/cancellation.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

// A key, in TensorFlow: "send_device;incarnation in 16 hexadecimal digits;recv_device;tensor_name;frame:iteration".
struct RendezvousKey {
  std::string send_device;
  uint64_t send_incarnation = 1;
  std::string recv_device;
  std::string tensor_name;
  uint64_t frame = 0, iteration = 0;

  std::string ToString() const;
  // INVALID_ARGUMENT: text of another form.
  static StatusOr<RendezvousKey> Parse(std::string_view text);
};

// "/job:worker/replica:0/task:1" for "/job:worker/replica:0/task:1/device:CPU:0"; a name without a device is returned.
std::string_view TaskOf(std::string_view device);

// Source of the tensors that other tasks send within one step. Implemented above the sessions; thread-safe.
class RemoteRendezvous {
 public:
  using Done = std::function<void(StatusOr<Tensor>)>;
  virtual ~RemoteRendezvous() = default;
  // Fetches `key` from `task`. `done` is called once, at the latest soon after `cancel` is cancelled. Must not block.
  // UNAVAILABLE: the task cannot be reached; names it. ABORTED: it was restarted, or its step has failed.
  virtual void RecvAsync(const std::string& task, const std::string& key, const CancellationToken& cancel,
                         Done done) = 0;
};

// For one run (a step): keys of other runs are not visible, and tensors without a receive are dropped at its end.
// Several tensors with one key are received in the order of their sends. Thread-safe; nothing blocks.
class Rendezvous {
 public:
  using Done = std::function<void(StatusOr<Tensor>)>;

  // `remote`: fetches keys of other tasks' devices; null: every send is in this process. `parked`: budget of tensors
  // that wait for their receive; null: no limit.
  explicit Rendezvous(std::shared_ptr<RemoteRendezvous> remote = nullptr,
                      std::shared_ptr<MemoryBudget> parked = nullptr);
  // Ends waiting receives with ABORTED.
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // Calls the receive that waits for `key`, on this thread, or stores the tensor (sharing its buffer) for the next one.
  // After Abort, returns its status. RESOURCE_EXHAUSTED: the budget has no room to store the tensor.
  Status Send(const std::string& key, Tensor value);
  // `done` is called once: at once if the tensor is there, else by the send, by Abort with its status, or with
  // CANCELLED if `cancel` is cancelled.
  void RecvAsync(const std::string& key, const CancellationToken& cancel, Done done);
  // The same for a key of any task: a remote sender's tensor is fetched from its task.
  void RecvAsync(const RendezvousKey& key, const CancellationToken& cancel, Done done);
  // Waiting and later receives get `status`, an error; stored tensors are dropped. Only the first call has an effect.
  void Abort(const Status& status);

 private:
  struct State;
  const std::shared_ptr<RemoteRendezvous> remote_;
  const std::shared_ptr<State> state_;
};

}  // namespace rivulet
