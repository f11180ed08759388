// Recorder of the start and end of each instruction of a run, in preallocated memory.
//
//   RunRecorder recorder;
//   bindings.observer = &recorder;
//   RIVULET_RETURN_IF_ERROR(instance->Run(bindings));
//   for (const InstructionSpan& span : recorder.spans()) …   // while the program lives
//   recorder.Clear();
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/program/run_observer.h"

namespace rivulet {

// Returns nanoseconds of a monotonic clock that all processes of a machine share.
inline int64_t ProfileNanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct InstructionSpan {
  const Program* program = nullptr;
  int32_t instruction = 0;  // index in Program::instructions
  int32_t parent = -1;      // index in spans() of the enclosing If, While or call; -1: none, or it was dropped
  int64_t begin = 0;
  int64_t end = 0;     // 0: failed
  int64_t inside = 0;  // part of end - begin that was spent in instructions of inner programs
};

// For one thread. About 60 ns per instruction; allocates nothing during a run unless programs nest deeper than 64.
class RunRecorder final : public RunObserver {
 public:
  // Spans beyond `capacity` are only counted.
  explicit RunRecorder(size_t capacity = size_t{1} << 15);
  void Begin(const Program& program, int index, const KernelContext& context) override;
  Status End(const Program& program, int index, const KernelContext& context) override;
  void Failed(const Program& program, int index, const Status& status) override;

  std::span<const InstructionSpan> spans() const { return spans_; }  // ordered by begin
  int64_t dropped() const { return dropped_; }
  void Clear();

 private:
  struct Open {
    int32_t span;  // index in spans_, or -1
    int64_t begin;
    int64_t inside;
  };
  void Leave(int64_t end, bool failed);

  const size_t capacity_;
  std::vector<InstructionSpan> spans_;
  std::vector<Open> open_;
  int64_t dropped_ = 0;
};

}  // namespace rivulet
