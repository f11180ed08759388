// Monitor of the steps of a training loop, for a trace file or a profile requested by another process.
//
//   MonitoredRun watched(monitor, bindings);   // monitor may be null: nothing is spent
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
  int64_t begin = 0, end = 0;  // of the run, ProfileNanos
  int64_t dropped = 0;         // calls beyond what a recorder keeps
};

// Thread-safe.
class RunSink {
 public:
  virtual ~RunSink() = default;
  // Asked before every run; an atomic load where the answer is mostly no.
  virtual bool Wants() = 0;
  // Whether Wants may say yes now: asked by who could do several runs at once, of which none can be recorded. Another
  // atomic load; nothing is promised by it.
  virtual bool MayWant() const { return true; }
  // A run that had been wanted when it began; on the thread that ran it. The programs live during the call.
  virtual void Take(const RecordedRun& run) = 0;
  // A run that had been wanted did not end well and is not told of.
  virtual void Lost() {}
};

// Thread-safe. A run that at least one sink wants is recorded, and handed to those that wanted it.
class StepMonitor {
 public:
  // All must outlive the monitor and its runs. At most 8.
  explicit StepMonitor(std::vector<RunSink*> sinks) : sinks_(std::move(sinks)) {}
  // Whether a run that began now may be recorded.
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
  // The run ended well; one without this is forgotten.
  void Done() {
    if (recorder_ != nullptr) Tell();
  }

 private:
  void Begin(StepMonitor& monitor, Bindings& bindings);
  void Tell();
  void Leave(bool told);

  StepMonitor* monitor_ = nullptr;
  Bindings* bindings_ = nullptr;
  unsigned wanted_ = 0;  // a bit per sink
  std::unique_ptr<RunRecorder> recorder_;
  int64_t begin_ = 0;
};

// What a run may be watched with. Both may be null.
class Tracer;
struct Instruments {
  Tracer* tracer = nullptr;
  StepMonitor* steps = nullptr;
};

}  // namespace rivulet
