// A double buffer between a maker and a user on different threads: while one item is used, the next is made, and no
// third is begun. Neither blocks: an idle side is restarted by the other when there is work. Internal to this folder.
//
//   maker: make ──→ Offer ──→ [make the next, or rest]
//   user:  use  ──→ Next  ──→ [use the next, or rest]
#pragma once

#include <optional>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/mutex.h"

namespace rivulet {

// Hand-over between the two threads. Thread-safe. At first the maker works and the user is idle.
template <typename T>
class DoubleBuffer {
 public:
  // The caller's next step: the user uses `use`, if present; the maker makes another item if `make` is true.
  struct Step {
    std::optional<T> use = std::nullopt;
    bool make = false;
  };

  // The maker offers an item. It is idle while the item waits here and, unless `ahead`, while it is used.
  Step Offer(T made, bool ahead) {
    MutexLock lock(mutex_);
    RIVULET_CHECK(!next_, "a second thing is made ahead");
    if (used_) {
      next_ = std::move(made);
      return {};
    }
    used_ = true;
    rests_ = !ahead;
    return {std::move(made), ahead};
  }

  // The user has finished an item. Without another it is idle; `resting` is called before any caller can restart it.
  template <typename Resting>
  Step Next(bool ahead, Resting resting) {
    MutexLock lock(mutex_);
    if (next_) {
      rests_ = !ahead;
      return {std::exchange(next_, std::nullopt), ahead};
    }
    used_ = false;
    resting();
    return {std::nullopt, std::exchange(rests_, false)};
  }

 private:
  Mutex mutex_;
  bool used_ GUARDED_BY(mutex_) = false;   // the user works
  bool rests_ GUARDED_BY(mutex_) = false;  // the maker is idle, although no item waits here
  std::optional<T> next_ GUARDED_BY(mutex_);
};

}  // namespace rivulet
