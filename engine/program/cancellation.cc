#include "engine/program/cancellation.h"

#include <map>
#include <thread>

#include "engine/base/mutex.h"

namespace rivulet {

struct CancellationToken::State {
  std::atomic<bool> cancelled{false};
  Mutex mutex;
  CondVar told;
  std::map<uint64_t, std::function<void()>> callbacks GUARDED_BY(mutex);
  uint64_t last_id GUARDED_BY(mutex) = 0;
  uint64_t running GUARDED_BY(mutex) = 0;  // id of the callback that is running
  std::thread::id canceller GUARDED_BY(mutex);
};

CancellationToken CancellationToken::Create() {
  CancellationToken token;
  token.state_ = std::make_shared<State>();
  token.flag_ = &token.state_->cancelled;
  return token;
}

void CancellationToken::Cancel() const {
  if (state_ == nullptr) return;
  const std::shared_ptr<State> state = state_;  // a callback may destroy the last copy of the token
  state->mutex.Lock();
  if (!state->cancelled.exchange(true)) {
    state->canceller = std::this_thread::get_id();
    while (!state->callbacks.empty()) {
      const auto first = state->callbacks.begin();
      const std::function<void()> callback = std::move(first->second);
      state->running = first->first;
      state->callbacks.erase(first);
      state->mutex.Unlock();
      callback();
      state->mutex.Lock();
      state->running = 0;
      state->told.NotifyAll();
    }
  }
  state->mutex.Unlock();
}

uint64_t CancellationToken::OnCancel(std::function<void()> callback) const {
  if (state_ == nullptr) return 0;
  MutexLock lock(state_->mutex);
  if (state_->cancelled.load()) return 0;
  state_->callbacks.emplace(++state_->last_id, std::move(callback));
  return state_->last_id;
}

bool CancellationToken::Forget(uint64_t id) const {
  if (state_ == nullptr || id == 0) return false;
  MutexLock lock(state_->mutex);
  if (state_->callbacks.erase(id) > 0) return true;
  while (state_->running == id && state_->canceller != std::this_thread::get_id()) state_->told.Wait(state_->mutex);
  return false;
}

}  // namespace rivulet
