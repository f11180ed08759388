// Executors: run work asynchronously, so that the caller does not wait for it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "engine/base/clock.h"

namespace rivulet {

// Thread-safe; a job may give others. Jobs begin by the time they were given for, which of Run is now, then in the
// order in which they were given; on an executor of one thread they also end so. Jobs do not throw.
class Executor {
 public:
  // Runs what Run was given, and what these jobs give it, before it returns; what RunAt was given and is not due is
  // dropped. Not from one of its own jobs.
  virtual ~Executor() = default;
  virtual void Run(std::function<void()> job) = 0;
  // Not before `time`; a time that has passed is now.
  virtual void RunAt(TimeMs time, std::function<void()> job) = 0;
};

// `threads` of its own, at least one, on the system's clock. Debuggers see the first 15 bytes of `name`.
std::unique_ptr<Executor> ThreadExecutor(const std::string& name, int threads);

// The caller's thread, on a clock of the caller's: for virtual time.
class InlineExecutor : public Executor {
 public:
  static std::unique_ptr<InlineExecutor> Create(Clock& clock);  // which must outlive it
  // Runs everything that is due, and what these jobs give that is due, until nothing is; says how many there were. One
  // call at a time.
  virtual int64_t RunDue() = 0;
  virtual std::optional<TimeMs> next() const = 0;  // when the next job is due
};

}  // namespace rivulet
