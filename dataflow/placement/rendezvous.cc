#include "dataflow/placement/rendezvous.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "dataflow/resources/cancellable_wait.h"
#include "engine/base/check.h"
#include "engine/base/shown_text.h"

namespace rivulet {

std::string_view TaskOf(std::string_view device) { return device.substr(0, device.find("/device:")); }

StatusOr<RendezvousKey> RendezvousKey::Parse(std::string_view text) {
  const auto refused = [&] {
    return InvalidArgument(
        "'{}' is no key of a transfer; it has the form 'SEND_DEVICE;INCARNATION;RECV_DEVICE;NAME;FRAME:ITERATION'",
        Shortened(text));
  };
  std::string_view parts[5];
  for (size_t i = 0; i < 5; ++i) {
    const size_t end = text.find(';');
    if ((end == std::string_view::npos) != (i == 4)) return refused();
    parts[i] = text.substr(0, end);
    if (i < 4) text.remove_prefix(end + 1);
  }
  const auto number = [](std::string_view digits, int base, uint64_t& value) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    return error == std::errc() && end == digits.data() + digits.size();
  };
  RendezvousKey key;
  key.send_device = parts[0];
  key.recv_device = parts[2];
  key.tensor_name = parts[3];
  const size_t colon = parts[4].find(':');
  if (colon == std::string_view::npos || parts[1].size() != 16 || !number(parts[1], 16, key.send_incarnation) ||
      !number(parts[4].substr(0, colon), 10, key.frame) || !number(parts[4].substr(colon + 1), 10, key.iteration))
    return refused();
  return key;
}

std::string RendezvousKey::ToString() const {
  return fmt::format("{};{:016x};{};{};{}:{}", send_device, send_incarnation, recv_device, tensor_name, frame,
                     iteration);
}

// Shared with callbacks of cancellations, which may run after the run and the rendezvous have ended.
struct Rendezvous::State {
  struct Waiter {
    uint64_t number = 0;
    Done done;
    CancellableWait wait;
  };
  struct Slot {
    std::deque<Tensor> sent;
    std::deque<Waiter> waiting;  // `waiting` and the sent tensors are never both non-empty
  };
  const std::shared_ptr<MemoryBudget> parked;
  Mutex mutex;
  std::map<std::string, Slot> slots GUARDED_BY(mutex);
  Status aborted GUARDED_BY(mutex);
  uint64_t next_number GUARDED_BY(mutex) = 1;

  explicit State(std::shared_ptr<MemoryBudget> budget) : parked(std::move(budget)) {}
  Status Park(const Tensor& value) {
    return parked == nullptr ? absl::OkStatus() : parked->Take(value.bytes(), "a tensor that waits for its receive");
  }
  void Unpark(const Tensor& value) {
    if (parked != nullptr) parked->Give(value.bytes());
  }

  // Removes and returns the waiter with this number; without `done` if another thread removed it.
  Waiter Take(const std::string& key, uint64_t number) {
    MutexLock lock(mutex);
    const auto slot = slots.find(key);
    if (slot == slots.end()) return {};
    auto& waiting = slot->second.waiting;
    const auto found = std::ranges::find(waiting, number, &Waiter::number);
    if (found == waiting.end()) return {};
    Waiter waiter = std::move(*found);
    waiting.erase(found);
    if (waiting.empty()) slots.erase(slot);
    return waiter;
  }
};

Rendezvous::Rendezvous(std::shared_ptr<RemoteRendezvous> remote, std::shared_ptr<MemoryBudget> parked)
    : remote_(std::move(remote)), state_(std::make_shared<State>(std::move(parked))) {}

Rendezvous::~Rendezvous() { Abort(Aborted("the run that was to receive a tensor is over")); }

Status Rendezvous::Send(const std::string& key, Tensor value) {
  State::Waiter waiter;
  {
    MutexLock lock(state_->mutex);
    if (!state_->aborted.ok()) return state_->aborted;
    State::Slot& slot = state_->slots[key];
    if (slot.waiting.empty()) {
      if (Status parked = state_->Park(value); !parked.ok()) {
        if (slot.sent.empty()) state_->slots.erase(key);
        return parked;
      }
      slot.sent.push_back(std::move(value));
      return absl::OkStatus();
    }
    waiter = std::move(slot.waiting.front());
    slot.waiting.pop_front();
    if (slot.waiting.empty()) state_->slots.erase(key);
  }
  // The waiter is no longer in the table, so a concurrent cancellation finds nothing to do.
  waiter.wait.End();
  waiter.done(std::move(value));
  return absl::OkStatus();
}

// Three events may end a waiting receive: its send, its cancellation and the end of the run. A number identifies it
// instead of an address, because a later receive may have the same address.
void Rendezvous::RecvAsync(const std::string& key, const CancellationToken& cancel, Done done) {
  uint64_t number = 0;
  Tensor value;
  Status aborted;
  bool here = false;
  // Once it waits, another thread may answer it, which may destroy `key`, `cancel` and this rendezvous. This thread
  // continues with copies.
  std::string own_key;
  CancellableWait wait;
  std::weak_ptr<State> own_state;
  {
    MutexLock lock(state_->mutex);
    aborted = state_->aborted;
    if (aborted.ok()) {
      State::Slot& slot = state_->slots[key];
      if (!slot.sent.empty()) {
        value = std::move(slot.sent.front());
        slot.sent.pop_front();
        state_->Unpark(value);
        if (slot.sent.empty()) state_->slots.erase(key);
        here = true;
      } else {
        own_key = key;
        wait = CancellableWait(cancel);
        own_state = state_;
        number = state_->next_number++;
        slot.waiting.push_back({number, std::move(done), wait});
      }
    }
  }
  if (!aborted.ok()) return done(aborted);
  if (here) return done(std::move(value));
  wait.Register([state = std::move(own_state), key = std::move(own_key), number] {
    const std::shared_ptr<State> alive = state.lock();
    if (alive == nullptr) return;
    const State::Waiter waiter = alive->Take(key, number);
    if (!waiter.done) return;
    waiter.wait.End();
    waiter.done(Cancelled("the receive of '{}' was cancelled", key));
  });
}

void Rendezvous::RecvAsync(const RendezvousKey& key, const CancellationToken& cancel, Done done) {
  if (remote_ == nullptr || TaskOf(key.send_device) == TaskOf(key.recv_device))
    return RecvAsync(key.ToString(), cancel, std::move(done));
  Status aborted;
  {
    MutexLock lock(state_->mutex);
    aborted = state_->aborted;
  }
  if (!aborted.ok()) return done(aborted);
  remote_->RecvAsync(std::string(TaskOf(key.send_device)), key.ToString(), cancel, std::move(done));
}

// Empties the table before it calls the waiters, because they
// may send and receive again, and must then get the error.
void Rendezvous::Abort(const Status& status) {
  RIVULET_CHECK(!status.ok(), "a rendezvous is aborted with an error");
  std::map<std::string, State::Slot> slots;
  {
    MutexLock lock(state_->mutex);
    if (!state_->aborted.ok()) return;
    state_->aborted = status;
    slots.swap(state_->slots);
  }
  for (auto& [key, slot] : slots) {
    for (const Tensor& value : slot.sent) state_->Unpark(value);
    for (State::Waiter& waiter : slot.waiting) {
      waiter.wait.End();
      waiter.done(status);
    }
  }
}

}  // namespace rivulet
