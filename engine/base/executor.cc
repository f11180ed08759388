#include "engine/base/executor.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/mutex.h"

namespace rivulet {
namespace {

// Jobs in the order in which they begin. Run is RunAt of the present moment: one order for both, and since a clock does
// not go back, jobs that Run was given keep theirs among each other. Not thread-safe.
class JobList {
 public:
  void Add(TimeMs time, std::function<void()> job) { jobs_.emplace(std::pair(time, given_++), std::move(job)); }
  // The first job, if it is due; an empty function otherwise.
  std::function<void()> TakeDue(TimeMs now) {
    if (jobs_.empty() || jobs_.begin()->first.first > now) return nullptr;
    return std::move(jobs_.extract(jobs_.begin()).mapped());
  }
  std::optional<TimeMs> next() const {
    return jobs_.empty() ? std::nullopt : std::optional(jobs_.begin()->first.first);
  }

 private:
  std::map<std::pair<TimeMs, uint64_t>, std::function<void()>> jobs_;
  uint64_t given_ = 0;
};

class Threads : public Executor {
 public:
  Threads(const std::string& name, int threads) {
    // A thread that nobody joins ends the process on the spot; those that the system did give must end before the
    // caller hears of the one that it did not.
    try {
      for (int i = 0; i < std::max(1, threads); ++i) {
        threads_.emplace_back([this] { Work(); });
        pthread_setname_np(threads_.back().native_handle(), name.substr(0, 15).c_str());
      }
    } catch (...) {
      Close();
      throw;
    }
  }
  ~Threads() override { Close(); }

  void Run(std::function<void()> job) override { RunAt(0, std::move(job)); }
  void RunAt(TimeMs time, std::function<void()> job) override {
    MutexLock lock(mutex_);
    jobs_.Add(std::max(time, clock_.Now()), std::move(job));
    given_.NotifyOne();  // whichever thread it wakes sees when the first job is due now
  }

 private:
  void Close() {
    {
      MutexLock lock(mutex_);
      closing_ = true;
    }
    given_.NotifyAll();
    for (std::thread& thread : threads_) thread.join();
  }

  void Work() {
    mutex_.Lock();
    while (true) {
      const TimeMs now = clock_.Now();
      if (std::function<void()> job = jobs_.TakeDue(now)) {
        mutex_.Unlock();
        job();
        job = nullptr;  // what it holds may end only here, and may take its time or give jobs
        mutex_.Lock();
      } else if (closing_) {
        break;
      } else if (const std::optional<TimeMs> next = jobs_.next()) {
        given_.WaitFor(mutex_, std::chrono::milliseconds(*next - now));
      } else {
        given_.Wait(mutex_);
      }
    }
    mutex_.Unlock();
  }

  Clock& clock_ = Clock::System();
  Mutex mutex_;
  CondVar given_;
  JobList jobs_ GUARDED_BY(mutex_);
  bool closing_ GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

class Inline : public InlineExecutor {
 public:
  explicit Inline(Clock& clock) : clock_(clock) {}
  ~Inline() override { RunDue(); }

  void Run(std::function<void()> job) override { RunAt(0, std::move(job)); }
  void RunAt(TimeMs time, std::function<void()> job) override {
    MutexLock lock(mutex_);
    jobs_.Add(std::max(time, clock_.Now()), std::move(job));
  }
  int64_t RunDue() override {
    for (int64_t ran = 0;; ++ran) {
      std::function<void()> job;
      {
        MutexLock lock(mutex_);
        job = jobs_.TakeDue(clock_.Now());
      }
      if (!job) return ran;
      job();
    }
  }
  std::optional<TimeMs> next() const override {
    MutexLock lock(mutex_);
    return jobs_.next();
  }

 private:
  Clock& clock_;
  mutable Mutex mutex_;
  JobList jobs_ GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Executor> ThreadExecutor(const std::string& name, int threads) {
  return std::make_unique<Threads>(name, threads);
}

std::unique_ptr<InlineExecutor> InlineExecutor::Create(Clock& clock) { return std::make_unique<Inline>(clock); }

}  // namespace rivulet
