// Threads, locks, waits, sleeps and clocks of a whole test program on one thread of the system and in virtual time, so
// that production code runs as it is, with all threads that it starts, and what happens follows from a seed alone.
//
// virtual_threads.cc defines the functions of POSIX that the standard library is made of (pthread_create,
// pthread_mutex_lock, pthread_cond_wait, clock_gettime, nanosleep, …) for the program that it is linked into. A thread
// is a stack; whoever would wait gives way to another one, which the seed draws of those that can go on; when none can,
// the clock goes to the next time that somebody waits for. Computing takes no time. When nobody can go on and nobody
// waits for a time, or when a million switches do not let a second pass, the program says so and aborts: in the real
// world that is a hang.
//
// Interfaces with a simulated twin (Clock, Executor, FileSystem, CoordinatorApi) would leave out what goes wrong
// between two threads of one class, and code that waits in the middle of a function. These stay what they are for
// what one class is asked.
//
// Not with sanitizers, which define the same functions, nor beside code that waits by other means (futexes: gRPC,
// std::atomic::wait).
#pragma once

#include <cstdint>
#include <string>

namespace rivulet::testing {

class VirtualThreads {
 public:
  // From now on the order is that of `seed`, and it is time 1 s. No thread but the caller's is there.
  static void Begin(uint64_t seed);
  static int64_t NowMs();
  static int64_t switches();  // since Begin
  // Threads that are there beside the first one.
  static int64_t threads();
  // What std::random_device gives: of the seed too, but another stream, so that who draws a name moves nothing else.
  static uint32_t RandomWord();
  // Printed when the program has to abort: which seed it was.
  static void SetStory(std::string story);
};

// The calling thread, and those that it starts meanwhile for good, may lose their turn whenever they take a lock, and
// not only when they wait: in code that is called by several threads at once.
class Interleaved {
 public:
  explicit Interleaved(bool on = true);
  ~Interleaved();
  Interleaved(const Interleaved&) = delete;
  Interleaved& operator=(const Interleaved&) = delete;

 private:
  const bool before_;
};

}  // namespace rivulet::testing
