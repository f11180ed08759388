#include "dataflow/resources/cancellable_wait.h"

namespace rivulet {

// The wait's own lock is never held while the token is called: the token runs callbacks, and waits for them.
void CancellableWait::Register(std::function<void()> give_up) const {
  const std::shared_ptr<State> state = state_;  // the owner of this may be destroyed when it is answered
  if (state == nullptr) return;
  const uint64_t callback = state->cancel.OnCancel(give_up);
  if (callback == 0) {
    if (state->cancel.cancelled()) give_up();
    return;
  }
  bool ended = false;
  {
    MutexLock lock(state->mutex);
    ended = state->ended;
    if (!ended) state->callback = callback;
  }
  if (ended) state->cancel.Forget(callback);
}

void CancellableWait::End() const {
  const std::shared_ptr<State> state = state_;
  if (state == nullptr) return;
  uint64_t callback = 0;
  {
    MutexLock lock(state->mutex);
    state->ended = true;
    callback = std::exchange(state->callback, 0);
  }
  if (callback != 0) state->cancel.Forget(callback);
}

}  // namespace rivulet
