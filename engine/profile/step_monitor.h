// Monitor of the steps of a training loop, for a trace file or a profile requested by another process.
//
//   MonitoredRun watched(monitor, bindings);   // monitor may be null: then it costs nothing
//   RIVULET_RETURN_IF_ERROR(instance->Run(bindings));
//   watched.Done();
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/mutex.h"
#include "engine/profile/run_recorder.h"
#include "engine/program/program.h"

namespace rivulet {

struct RecordedRun {
  std::span<const InstructionSpan> spans;
  int64_t begin = 0, end = 0;  // of the run, from ProfileNanos
  int64_t dropped = 0;         // calls beyond a recorder's capacity
};

// A receiver of recorded runs. Thread-safe.
class RunSink {
 public:
  virtual ~RunSink() = default;
  // Called before every run; returns true to record it. Must be an atomic load if the answer is mostly false.
  virtual bool Wants() = 0;
  // Returns false if Wants would return false now. For callers that could do several runs at once, none of which could
  // be recorded. Also an atomic load; it is no promise.
  virtual bool MayWant() const { return true; }
  // Receives a run for which Wants returned true, on the thread that ran it. The programs are alive during the call.
  virtual void Take(const RecordedRun& run) = 0;
  // Called instead of Take if a wanted run failed.
  virtual void Lost() {}
};

// Records each run that at least one sink wants, and passes it to those sinks. Thread-safe.
class StepMonitor {
 public:
  // All sinks must outlive the monitor and its runs. At most 8.
  explicit StepMonitor(std::vector<RunSink*> sinks) : sinks_(std::move(sinks)) {}
  // Returns true if a run that began now might be recorded.
  bool MayRecord() const;

 private:
  friend class MonitoredRun;
  std::unique_ptr<RunRecorder> Take();
  void GiveBack(std::unique_ptr<RunRecorder> recorder);

  const std::vector<RunSink*> sinks_;
  Mutex mutex_;
  std::vector<std::unique_ptr<RunRecorder>> idle_ GUARDED_BY(mutex_);
};

class MonitoredRun {
 public:
  MonitoredRun(StepMonitor* monitor, Bindings& bindings) {
    if (monitor != nullptr) [[unlikely]]
      Begin(*monitor, bindings);
  }
  MonitoredRun(const MonitoredRun&) = delete;
  MonitoredRun& operator=(const MonitoredRun&) = delete;
  ~MonitoredRun() {
    if (recorder_ != nullptr) Leave(false);
  }
  // Reports success of the run; without this call the record is discarded.
  void Done() {
    if (recorder_ != nullptr) Tell();
  }

 private:
  void Begin(StepMonitor& monitor, Bindings& bindings);
  void Tell();
  void Leave(bool told);

  StepMonitor* monitor_ = nullptr;
  Bindings* bindings_ = nullptr;
  unsigned wanted_ = 0;  // one bit per sink
  std::unique_ptr<RunRecorder> recorder_;
  int64_t begin_ = 0;
};

// Optional observers of a run. Both may be null.
class Tracer;
struct Instruments {
  Tracer* tracer = nullptr;
  StepMonitor* steps = nullptr;
};

}  // namespace rivulet
