#include "dataflow/session/thread_pool.h"

#include <map>
#include <thread>
#include <vector>

#include "engine/base/available_cores.h"
#include "engine/base/mutex.h"
#include "engine/program/program.h"

namespace rivulet {

// Shared by the threads, because the last owner of a pool may be a closure that one of them runs.
struct ThreadPool::State {
  std::string name;
  int threads = 0;
  Mutex mutex;
  CondVar work;
  std::multimap<int64_t, std::function<void()>, std::greater<>> queue GUARDED_BY(mutex);  // equal keys keep their order
  std::vector<std::thread> running GUARDED_BY(mutex);
  int idle GUARDED_BY(mutex) = 0;
  bool stopping GUARDED_BY(mutex) = false;
};

namespace {
thread_local const std::string* current_pool = nullptr;
}  // namespace

ThreadPool::ThreadPool(std::string name, int threads) : state_(std::make_shared<State>()) {
  state_->name = std::move(name);
  state_->threads = threads > 0 ? threads : AvailableCores();
}

ThreadPool::~ThreadPool() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(state_->mutex);
    state_->stopping = true;
    threads = std::move(state_->running);
    state_->work.NotifyAll();
  }
  for (std::thread& thread : threads) {
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();  // the last owner was a closure of this pool
    } else {
      thread.join();
    }
  }
}

void ThreadPool::Schedule(std::function<void()> closure, int64_t priority) {
  MutexLock lock(state_->mutex);
  state_->queue.emplace(priority, std::move(closure));
  const bool all_busy = static_cast<int>(state_->queue.size()) > state_->idle;
  if (all_busy && static_cast<int>(state_->running.size()) < state_->threads && !state_->stopping) {
    state_->running.emplace_back([state = state_] {
      EnterWorkerThread();
      current_pool = &state->name;
      state->mutex.Lock();
      while (true) {
        if (state->queue.empty()) {
          if (state->stopping) break;
          ++state->idle;
          state->work.Wait(state->mutex);
          --state->idle;
          continue;
        }
        std::function<void()> next = std::move(state->queue.begin()->second);
        state->queue.erase(state->queue.begin());
        state->mutex.Unlock();
        next();
        next = nullptr;  // destroys its captures before locking again
        state->mutex.Lock();
      }
      state->mutex.Unlock();
    });
  } else {
    state_->work.NotifyOne();
  }
}

int ThreadPool::threads() const { return state_->threads; }

std::string_view ThreadPool::Current() {
  return current_pool == nullptr ? std::string_view() : std::string_view(*current_pool);
}

StatusOr<std::shared_ptr<ThreadPool>> ThreadPool::Shared(const std::string& name, int threads) {
  static Mutex* const mutex = new Mutex();
  static auto* const pools = new std::map<std::string, std::shared_ptr<ThreadPool>>();
  MutexLock lock(*mutex);
  std::shared_ptr<ThreadPool>& pool = (*pools)[name];
  if (pool == nullptr) pool = std::make_shared<ThreadPool>(name, threads);
  if (threads > 0 && pool->threads() != threads)
    return InvalidArgument("the thread pool '{}' has {} threads already, and {} are asked for", name, pool->threads(),
                           threads);
  return pool;
}

}  // namespace rivulet
