// Ending a run from another thread.
#pragma once

#include <atomic>
#include <memory>

namespace rivulet {

// Cancelled from any thread; a run ends before its next kernel with CANCELLED.
class CancellationToken {
 public:
  CancellationToken() = default;  // never cancelled
  static CancellationToken Create() {
    CancellationToken token;
    token.flag_ = std::make_shared<std::atomic<bool>>(false);
    return token;
  }
  void Cancel() const {
    if (flag_) flag_->store(true, std::memory_order_relaxed);
  }
  bool cancelled() const { return flag_ && flag_->load(std::memory_order_relaxed); }

 private:
  std::shared_ptr<std::atomic<bool>> flag_;
};

}  // namespace rivulet
