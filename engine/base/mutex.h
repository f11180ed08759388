// std::mutex with clang's thread-safety annotations (checked under clang's -Wthread-safety; nothing elsewhere).
// std and not absl: the thread sanitizer cannot see inside the distribution's uninstrumented absl::Mutex.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define RIVULET_TS(x) __attribute__((x))
#else
#define RIVULET_TS(x)
#endif
#ifndef GUARDED_BY  // abseil's headers may bring the same
#define GUARDED_BY(m) RIVULET_TS(guarded_by(m))
#endif
#define REQUIRES(...) RIVULET_TS(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) RIVULET_TS(locks_excluded(__VA_ARGS__))

namespace rivulet {

class RIVULET_TS(capability("mutex")) Mutex {
 public:
  void Lock() RIVULET_TS(acquire_capability()) { mutex_.lock(); }
  void Unlock() RIVULET_TS(release_capability()) { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class RIVULET_TS(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) RIVULET_TS(acquire_capability(mutex)) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() RIVULET_TS(release_capability()) { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

class CondVar {
 public:
  // Callers hold `mutex`; it is held again on return. Wake-ups may be spurious.
  void Wait(Mutex& mutex) REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  // False when `timeout` passed first.
  bool WaitFor(Mutex& mutex, std::chrono::nanoseconds timeout) REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const bool woken = condition_.wait_for(lock, timeout) == std::cv_status::no_timeout;
    lock.release();
    return woken;
  }
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace rivulet
