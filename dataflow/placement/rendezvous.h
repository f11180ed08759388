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
};

// Of one run (a step): keys of other runs are not seen, and what nobody received goes with it. Several tensors under
// one key are received in the order in which they were sent. Thread-safe; nothing blocks.
class Rendezvous {
 public:
  using Done = std::function<void(StatusOr<Tensor>)>;

  Rendezvous();
  // Abandons who still waits, with ABORTED.
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // Calls the receive that waits for `key`, on this thread, or keeps the tensor (which shares its buffer) for the next.
  // The status of Abort after that.
  Status Send(const std::string& key, Tensor value);
  // `done` is called once: at once when the tensor is there, else by the send, by Abort with its status, or with
  // CANCELLED when `cancel` is.
  void RecvAsync(const std::string& key, const CancellationToken& cancel, Done done);
  // Everybody who waits or comes later gets `status`, an error; what was sent is dropped. Only the first call counts.
  void Abort(const Status& status);

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace rivulet
