// Progress of long operations on stderr, in the style of --quiet and --progress, and their clean stop by Ctrl-C.
#pragma once

#include <chrono>
#include <string>

#include "cli/interrupt.h"
#include "engine/data/progress.h"

namespace rivulet {

// A progress bar on a terminal, with rate and time left; lines in a pipe. Prints nothing in the first second.
class WorkProgress {
 public:
  // In a pipe, kSeldom prints a line every five seconds, and kEach one per step, from the first on.
  enum class Lines { kSeldom, kEach };
  // `what`: "writing clients". `bytes`: the count is of bytes.
  explicit WorkProgress(std::string what, Lines lines = Lines::kSeldom, bool bytes = false);
  ~WorkProgress();
  WorkProgress(const WorkProgress&) = delete;
  WorkProgress& operator=(const WorkProgress&) = delete;

  void Tell(int64_t done, int64_t total);  // total 0: unknown
  const std::string& what() const { return what_; }

 private:
  using SteadyClock = std::chrono::steady_clock;
  std::string Line(int64_t done, int64_t total, size_t columns) const;

  const std::string what_;
  const Lines lines_;
  const bool bytes_, terminal_;
  const SteadyClock::time_point start_ = SteadyClock::now();
  SteadyClock::time_point next_;
  bool open_ = false;  // an unfinished line is on the terminal
};

// Progress and Ctrl-C of one operation. One at a time, without another Interrupt beside it.
class LongWork {
 public:
  explicit LongWork(std::string what, bool bytes = false)
      : progress_(std::move(what), WorkProgress::Lines::kSeldom, bytes) {}
  LongWork(const LongWork&) = delete;
  LongWork& operator=(const LongWork&) = delete;

  // Pass it to the work; this object must outlive it.
  DataProgress progress();

 private:
  WorkProgress progress_;
  Interrupt interrupt_;
};

}  // namespace rivulet
