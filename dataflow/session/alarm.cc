#include "dataflow/session/alarm.h"

#include <algorithm>
#include <map>
#include <thread>
#include <utility>

#include "engine/base/mutex.h"

namespace rivulet {
namespace {

using Clock = std::chrono::steady_clock;

// One thread for all alarms of the process; it never ends. A thread
// per run would cost more than many runs. It is never joined, so
// that alarms may still be used while the process exits.
class Clockwork {
 public:
  static Clockwork& Global() {
    static Clockwork* const clockwork = new Clockwork();
    return *clockwork;
  }

  uint64_t Set(Clock::time_point when, std::function<void()> callback) {
    MutexLock lock(mutex_);
    if (!started_) {
      started_ = true;
      std::thread([this] { Loop(); }).detach();
    }
    const uint64_t id = ++last_id_;
    const bool earliest = alarms_.empty() || when < alarms_.begin()->first.first;
    alarms_.emplace(std::pair(when, id), std::move(callback));
    times_.emplace(id, when);
    if (earliest) changed_.NotifyAll();
    return id;
  }

  // Waits for a running callback, so that the alarm's owner may be destroyed.
  void Forget(uint64_t id) {
    MutexLock lock(mutex_);
    if (const auto found = times_.find(id); found != times_.end()) {
      alarms_.erase({found->second, id});
      times_.erase(found);
      return;
    }
    while (ringing_ == id) rung_.Wait(mutex_);
  }

 private:
  void Loop() {
    mutex_.Lock();
    while (true) {
      if (alarms_.empty()) {
        changed_.Wait(mutex_);
        continue;
      }
      const auto first = alarms_.begin();
      const Clock::time_point now = Clock::now();
      if (first->first.first > now) {
        // Limits the wait, so that clock arithmetic does not overflow.
        changed_.WaitFor(mutex_, std::min<Clock::duration>(first->first.first - now, std::chrono::hours(1)));
        continue;
      }
      const std::function<void()> callback = std::move(first->second);
      ringing_ = first->first.second;
      times_.erase(ringing_);
      alarms_.erase(first);
      mutex_.Unlock();
      callback();
      mutex_.Lock();
      ringing_ = 0;
      rung_.NotifyAll();
    }
  }

  Mutex mutex_;
  CondVar changed_, rung_;
  std::map<std::pair<Clock::time_point, uint64_t>, std::function<void()>> alarms_ GUARDED_BY(mutex_);
  std::map<uint64_t, Clock::time_point> times_ GUARDED_BY(mutex_);
  uint64_t last_id_ GUARDED_BY(mutex_) = 0;
  uint64_t ringing_ GUARDED_BY(mutex_) = 0;
  bool started_ GUARDED_BY(mutex_) = false;
};

}  // namespace

Alarm::Alarm(Clock::time_point when, std::function<void()> callback)
    : id_(Clockwork::Global().Set(when, std::move(callback))) {}

Alarm::~Alarm() { Clockwork::Global().Forget(id_); }

}  // namespace rivulet
