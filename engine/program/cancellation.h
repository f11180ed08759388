// Cancellation of a run from another thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

namespace rivulet {

// Cancelled from any thread; a program ends before its next kernel with CANCELLED, and what is blocked is told. Copies
// are the same token. Thread-safe.
class CancellationToken {
 public:
  CancellationToken() = default;  // never cancelled
  static CancellationToken Create();
  // The first call tells everybody who asked to be told, on this thread, before it returns.
  void Cancel() const;
  bool cancelled() const { return flag_ != nullptr && flag_->load(std::memory_order_relaxed); }

  // `callback` will run once, on the thread that cancels. Returns a number for Forget; 0 when the token is cancelled
  // already, or never can be: then the callback is not kept.
  uint64_t OnCancel(std::function<void()> callback) const;
  // True: the callback will never run. False: it has run, perhaps it did before this returns; or `id` is 0. Waits for a
  // callback that is running on another thread, so hold no lock that it takes.
  bool Forget(uint64_t id) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
  const std::atomic<bool>* flag_ = nullptr;  // in state_
};

}  // namespace rivulet
