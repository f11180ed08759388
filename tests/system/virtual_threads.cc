#include "virtual_threads.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace rivulet::testing {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kUnixNs = 1'738'333'530 * kSecondNs;  // 2025-01-31T14:25:30Z, at time 0
constexpr size_t kStackBytes = 1 << 20;
constexpr int64_t kMostSwitchesASecond = 1'000'000;
constexpr uint32_t kLosesItsTurn = 16;  // one lock of so many

struct Fiber {
  ucontext_t context;
  void* stack = nullptr;
  void* (*start)(void*) = nullptr;
  void* argument = nullptr;
  void* result = nullptr;
  const void* waits_for = nullptr;  // a condition, a mutex, a thread; null: for the time alone
  int64_t until = kNever;
  uint64_t turn = 0;  // the how manyth wait this is, of all: a key that is the same in every run
  bool woken = false, ended = false, detached = false, interleaved = false;
};

class Scheduler {
 public:
  Scheduler() : current_(&first_) {}

  void Begin(uint64_t seed) {
    random_.seed(seed);
    words_.seed(seed ^ 0x9E3779B97F4A7C15u);
    now_ = kSecondNs;
    switches_ = 0;
    since_ = now_;
    switches_since_ = 0;
  }

  // Until Wake(thing) or, where it comes first, the time `until`; whether it was woken.
  bool Wait(const void* thing, int64_t until) {
    Fiber* const self = current_;
    self->waits_for = thing;
    self->until = until;
    self->woken = false;
    self->turn = ++waits_;
    if (thing != nullptr) waiting_[thing].push_back(self);
    if (until != kNever) sleeping_.emplace(until, self->turn, self);
    Next();
    return self->woken;
  }
  void Yield() {
    runnable_.push_back(current_);
    Next();
  }
  // Asked at every unlock: nearly always nobody waits.
  void Wake(const void* thing, bool all) {
    const auto found = waiting_.find(thing);
    if (found == waiting_.end()) return;
    std::vector<Fiber*>& those = found->second;
    do {
      const size_t place = all ? 0 : Below(those.size());
      Fiber* const fiber = those[place];
      fiber->woken = true;
      if (fiber->until != kNever) sleeping_.erase({fiber->until, fiber->turn, fiber});
      runnable_.push_back(fiber);
      those[place] = those.back();
      those.pop_back();
    } while (all && !those.empty());
    if (those.empty()) waiting_.erase(found);
  }
  void MayLoseTurn() {
    if (current_->interleaved && !runnable_.empty() && Below(kLosesItsTurn) == 0) Yield();
  }

  Fiber* Start(void* (*start)(void*), void* argument) {
    auto* const fiber = new Fiber;
    fiber->start = start;
    fiber->argument = argument;
    fiber->interleaved = current_->interleaved;
    fiber->stack = TakeStack();
    getcontext(&fiber->context);
    fiber->context.uc_stack = {.ss_sp = fiber->stack, .ss_flags = 0, .ss_size = kStackBytes};
    fiber->context.uc_link = nullptr;
    makecontext(&fiber->context, &Scheduler::Enter, 0);
    runnable_.push_back(fiber);
    ++threads_;
    return fiber;
  }
  void* Join(Fiber* fiber) {
    while (!fiber->ended) Wait(fiber, kNever);
    void* const result = fiber->result;
    delete fiber;
    return result;
  }

  Fiber* current() const { return current_; }
  Fiber* first() { return &first_; }
  int64_t now() const { return now_; }
  int64_t switches() const { return switches_; }
  int64_t threads() const { return threads_; }
  uint32_t Word() { return static_cast<uint32_t>(words_()); }
  std::string story;

 private:
  static void Enter();

  size_t Below(size_t n) { return static_cast<size_t>(random_() % n); }
  // The caller stands in a list already, or has ended.
  void Next() {
    if (runnable_.empty()) LetTimePass();
    if (++switches_since_ > kMostSwitchesASecond) {
      if (now_ - since_ < kSecondNs) Abort("somebody goes round and round, and no time passes");
      since_ = now_;
      switches_since_ = 0;
    }
    ++switches_;
    const size_t place = runnable_.size() == 1 ? 0 : Below(runnable_.size());
    Fiber* const next = runnable_[place];
    runnable_[place] = runnable_.back();
    runnable_.pop_back();
    if (next == current_) return;
    Fiber* const self = std::exchange(current_, next);
    swapcontext(&self->context, &next->context);
    Bury();
  }
  void LetTimePass() {
    if (sleeping_.empty()) Abort("nobody can go on");
    now_ = std::max(now_, std::get<0>(*sleeping_.begin()));
    while (!sleeping_.empty() && std::get<0>(*sleeping_.begin()) <= now_) {
      Fiber* const fiber = std::get<2>(*sleeping_.begin());
      sleeping_.erase(sleeping_.begin());
      if (fiber->waits_for != nullptr) StopWaiting(fiber);
      runnable_.push_back(fiber);
    }
  }
  void StopWaiting(Fiber* fiber) {
    const auto found = waiting_.find(fiber->waits_for);
    std::vector<Fiber*>& those = found->second;
    *std::ranges::find(those, fiber) = those.back();
    those.pop_back();
    if (those.empty()) waiting_.erase(found);
  }
  // Of the thread that ended last, which stood on its stack until now.
  void Bury() {
    if (ended_ == nullptr) return;
    Fiber* const ended = std::exchange(ended_, nullptr);
    stacks_.push_back(std::exchange(ended->stack, nullptr));
    --threads_;
    if (ended->detached) delete ended;
  }
  void* TakeStack() {
    if (!stacks_.empty()) {
      void* const stack = stacks_.back();
      stacks_.pop_back();
      return stack;
    }
    void* const stack =
        mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED) Abort("no memory for a stack");
    mprotect(stack, 4096, PROT_NONE);
    return stack;
  }
  [[noreturn]] void Abort(const char* why) {
    std::fprintf(stderr, "%s: %s, at %lld ms after %lld switches\n", story.c_str(), why,
                 static_cast<long long>(now_ / 1'000'000), static_cast<long long>(switches_));
    std::fflush(nullptr);
    std::abort();
  }

  Fiber first_;
  Fiber* current_;
  Fiber* ended_ = nullptr;
  std::vector<Fiber*> runnable_;
  std::unordered_map<const void*, std::vector<Fiber*>> waiting_;  // by what they wait for
  std::set<std::tuple<int64_t, uint64_t, Fiber*>> sleeping_;      // by the time until which they wait
  uint64_t waits_ = 0;
  std::vector<void*> stacks_;
  std::mt19937_64 random_, words_;
  int64_t now_ = kSecondNs, since_ = 0, switches_ = 0, switches_since_ = 0, threads_ = 0;
};

// Locks are taken before any constructor of this program runs.
Scheduler& TheScheduler() {
  alignas(Scheduler) static char place[sizeof(Scheduler)];
  static Scheduler* scheduler = nullptr;
  static bool making = false;
  if (scheduler == nullptr && !making) {
    making = true;
    scheduler = new (place) Scheduler;
  }
  return *scheduler;
}

void Scheduler::Enter() {
  Scheduler& scheduler = TheScheduler();
  scheduler.Bury();
  Fiber* const self = scheduler.current_;
  self->result = self->start(self->argument);
  self->ended = true;
  scheduler.Wake(self, true);
  scheduler.ended_ = self;
  scheduler.Next();
}

int64_t NanosOf(const timespec& time) { return time.tv_sec * kSecondNs + time.tv_nsec; }
timespec TimeOf(int64_t nanos) { return {.tv_sec = nanos / kSecondNs, .tv_nsec = nanos % kSecondNs}; }
Fiber* FiberOf(pthread_t thread) { return reinterpret_cast<Fiber*>(thread); }

// A mutex holds who has it; zero, as it is made, is nobody.
struct MutexState {
  Fiber* owner;
  int64_t times;
};
MutexState& StateOf(pthread_mutex_t* mutex) {
  // Beside __kind, which says whether it is recursive, and which stands at byte 16.
  static_assert(sizeof(pthread_mutex_t) >= 40 && offsetof(pthread_mutex_t, __data.__kind) == 16);
  return *reinterpret_cast<MutexState*>(reinterpret_cast<char*>(mutex) + 24);
}

bool TryLock(pthread_mutex_t* mutex) {
  MutexState& state = StateOf(mutex);
  Fiber* const self = TheScheduler().current();
  if (state.owner != nullptr && (state.owner != self || (mutex->__data.__kind & 3) != PTHREAD_MUTEX_RECURSIVE)) {
    return false;
  }
  state.owner = self;
  ++state.times;
  return true;
}

int WaitOnCondition(pthread_cond_t* condition, pthread_mutex_t* mutex, int64_t until) {
  pthread_mutex_unlock(mutex);
  const bool woken = TheScheduler().Wait(condition, until);
  while (!TryLock(mutex)) TheScheduler().Wait(mutex, kNever);
  return woken ? 0 : ETIMEDOUT;
}

void SleepFor(int64_t nanos) {
  Scheduler& scheduler = TheScheduler();
  if (nanos <= 0) return scheduler.Yield();
  scheduler.Wait(nullptr, scheduler.now() + nanos);
}

}  // namespace

void VirtualThreads::Begin(uint64_t seed) { TheScheduler().Begin(seed); }
int64_t VirtualThreads::NowMs() { return TheScheduler().now() / 1'000'000; }
int64_t VirtualThreads::switches() { return TheScheduler().switches(); }
int64_t VirtualThreads::threads() { return TheScheduler().threads(); }
uint32_t VirtualThreads::RandomWord() { return TheScheduler().Word(); }
void VirtualThreads::SetStory(std::string story) { TheScheduler().story = std::move(story); }

Interleaved::Interleaved(bool on) : before_(std::exchange(TheScheduler().current()->interleaved, on)) {}
Interleaved::~Interleaved() { TheScheduler().current()->interleaved = before_; }

}  // namespace rivulet::testing

// What the standard library calls. The program's own definitions come before those of the C library, also for the
// libraries that it is linked with.
using rivulet::testing::FiberOf;
using rivulet::testing::NanosOf;
using rivulet::testing::StateOf;
using rivulet::testing::TheScheduler;

extern "C" {

int pthread_create(pthread_t* thread, const pthread_attr_t*, void* (*start)(void*), void* argument) {
  *thread = reinterpret_cast<pthread_t>(TheScheduler().Start(start, argument));
  return 0;
}
int pthread_join(pthread_t thread, void** result) {
  void* const given = TheScheduler().Join(FiberOf(thread));
  if (result != nullptr) *result = given;
  return 0;
}
int pthread_detach(pthread_t thread) {
  if (FiberOf(thread)->ended) {
    delete FiberOf(thread);
  } else {
    FiberOf(thread)->detached = true;
  }
  return 0;
}
pthread_t pthread_self() noexcept { return reinterpret_cast<pthread_t>(TheScheduler().current()); }
int pthread_setname_np(pthread_t, const char*) noexcept { return 0; }
int sched_yield() noexcept {
  TheScheduler().Yield();
  return 0;
}

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  TheScheduler().MayLoseTurn();
  while (!rivulet::testing::TryLock(mutex)) TheScheduler().Wait(mutex, rivulet::testing::kNever);
  return 0;
}
int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept { return rivulet::testing::TryLock(mutex) ? 0 : EBUSY; }
int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  auto& state = StateOf(mutex);
  if (--state.times > 0) return 0;
  state = {};
  TheScheduler().Wake(mutex, true);
  return 0;
}
int pthread_mutex_destroy(pthread_mutex_t*) noexcept { return 0; }

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  return rivulet::testing::WaitOnCondition(condition, mutex, rivulet::testing::kNever);
}
int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* until) {
  return rivulet::testing::WaitOnCondition(condition, mutex, NanosOf(*until) - rivulet::testing::kUnixNs);
}
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  const int64_t at = NanosOf(*until) - (clock == CLOCK_REALTIME ? rivulet::testing::kUnixNs : 0);
  return rivulet::testing::WaitOnCondition(condition, mutex, at);
}
int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  TheScheduler().Wake(condition, false);
  return 0;
}
int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  TheScheduler().Wake(condition, true);
  return 0;
}
int pthread_cond_destroy(pthread_cond_t*) noexcept { return 0; }

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const bool of_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  const bool ticks = of_wall || clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_RAW ||
                     clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_BOOTTIME;
  if (!ticks) return static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  *time = rivulet::testing::TimeOf(TheScheduler().now() + (of_wall ? rivulet::testing::kUnixNs : 0));
  return 0;
}
int gettimeofday(timeval* time, void*) noexcept {
  const int64_t now = TheScheduler().now() + rivulet::testing::kUnixNs;
  *time = {.tv_sec = now / rivulet::testing::kSecondNs, .tv_usec = now % rivulet::testing::kSecondNs / 1000};
  return 0;
}
int nanosleep(const timespec* time, timespec*) {
  rivulet::testing::SleepFor(NanosOf(*time));
  return 0;
}
int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec*) {
  const int64_t since = (flags & TIMER_ABSTIME) == 0 ? 0
                        : clock == CLOCK_REALTIME    ? TheScheduler().now() + rivulet::testing::kUnixNs
                                                     : TheScheduler().now();
  rivulet::testing::SleepFor(NanosOf(*time) - since);
  return 0;
}
int usleep(useconds_t micros) {
  rivulet::testing::SleepFor(int64_t{micros} * 1000);
  return 0;
}

// std::random_device::operator(): sessions and names of runs are of the seed too.
unsigned VirtualRandomDevice(void*) asm("_ZNSt13random_device9_M_getvalEv");
unsigned VirtualRandomDevice(void*) { return rivulet::testing::VirtualThreads::RandomWord(); }

}  // extern "C"
