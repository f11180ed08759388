// Exchange of tensors between the devices of one run. A send stores its tensor under a key and the receive of that key
// takes it; either may come first.
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

// As TensorFlow writes it: "send_device;incarnation in 16 hexadecimal digits;recv_device;tensor_name;frame:iteration".
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

// "/job:worker/replica:0/task:1" of "/job:worker/replica:0/task:1/device:CPU:0"; a name without a device is its task.
std::string_view TaskOf(std::string_view device);

// Source of the tensors that other tasks send within one step. Implemented above the sessions; thread-safe.
class RemoteRendezvous {
 public:
  using Done = std::function<void(StatusOr<Tensor>)>;
  virtual ~RemoteRendezvous() = default;
  // Fetches `key` from `task`. `done` is called once, soon after `cancel` is cancelled at the latest. Must not block.
  // UNAVAILABLE: the task cannot be reached, by name. ABORTED: it was restarted, or its step has failed.
  virtual void RecvAsync(const std::string& task, const std::string& key, const CancellationToken& cancel,
                         Done done) = 0;
};

// Of one run (a step): keys of other runs are not seen, and what nobody received goes with it. Several tensors under
// one key are received in the order in which they were sent. Thread-safe; nothing blocks.
class Rendezvous {
 public:
  using Done = std::function<void(StatusOr<Tensor>)>;

  // `remote`: where keys of other tasks' devices are fetched; null: every send is in this process. `parked`: budget of
  // the tensors that wait for their receive; null: no limit.
  explicit Rendezvous(std::shared_ptr<RemoteRendezvous> remote = nullptr,
                      std::shared_ptr<MemoryBudget> parked = nullptr);
  // Abandons who still waits, with ABORTED.
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // Calls the receive that waits for `key`, on this thread, or keeps the tensor (which shares its buffer) for the next.
  // The status of Abort after that. RESOURCE_EXHAUSTED: the budget has no room for a tensor that would have to wait.
  Status Send(const std::string& key, Tensor value);
  // `done` is called once: at once when the tensor is there, else by the send, by Abort with its status, or with
  // CANCELLED when `cancel` is.
  void RecvAsync(const std::string& key, const CancellationToken& cancel, Done done);
  // The same for a key whose sender may be another task: it is fetched from there then.
  void RecvAsync(const RendezvousKey& key, const CancellationToken& cancel, Done done);
  // Everybody who waits or comes later gets `status`, an error; what was sent is dropped. Only the first call counts.
  void Abort(const Status& status);

 private:
  struct State;
  const std::shared_ptr<RemoteRendezvous> remote_;
  const std::shared_ptr<State> state_;
};

}  // namespace rivulet
