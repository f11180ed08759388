// Cancellation of a run from another thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

namespace rivulet {

// Token that any thread may cancel; a program ends before its next kernel with CANCELLED, and blocked operations are
// notified. Copies are the same token. Thread-safe.
class CancellationToken {
 public:
  CancellationToken() = default;  // never cancelled
  static CancellationToken Create();
  // The first call runs all callbacks, on this thread, before it returns.
  void Cancel() const;
  bool cancelled() const { return flag_ != nullptr && flag_->load(std::memory_order_relaxed); }

  // `callback` will run once, on the thread that cancels. Returns an id for Forget; 0 if the token is already
  // cancelled, or can never be: then the callback is not kept.
  uint64_t OnCancel(std::function<void()> callback) const;
  // Returns true if the callback will never run; false if it has run, perhaps before this returns, or if `id` is 0.
  // Waits for a callback that is running on another thread, so hold no lock that it takes.
  bool Forget(uint64_t id) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
  const std::atomic<bool>* flag_ = nullptr;  // points into state_
};

}  // namespace rivulet
