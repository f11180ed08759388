// A debugger: observes runs and stops after a number of steps or instructions, at a node, or at the first tensor that
// meets a condition. It stops inside the run, on the running thread. The prompt callback inspects values, chooses how
// to continue, and returns.
//
//   Debugger debugger(options, [&](const DebugStop& stop) { … debugger.RunSteps(1); return absl::OkStatus(); });
//   debugger.RunUntil(*WatchCondition::Parse("has_nan"));
//   const Status status = train(&debugger);
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/debug/recorder.h"
#include "engine/debug/statistics.h"
#include "engine/program/program.h"
#include "engine/program/run_observer.h"

namespace rivulet {

struct DebugStop {
  enum class Why { kStep, kCondition, kBreakpoint, kInstruction, kFailed };
  Why why = Why::kStep;
  std::string phase;     // "begin", "step", "end"
  int64_t step = 0;      // number of finished steps, which is the index of the current or next step
  int instruction = 0;   // the program's instruction that has just run (or failed)
  int instructions = 0;  // number of instructions in the program
  std::string node, op, source_line;
  std::string tensor;     // kCondition: name of the tensor that meets it
  std::string condition;  // kCondition
  Status error;           // kFailed
};

class Debugger final : public RunObserver {
 public:
  struct Options {
    Recorder::Options recorder;
    // Returns the phase of a program; programs of phase "step" count as steps. Null: every program is a step.
    std::function<std::string(const Program&)> phase_of;
  };
  // Called at each stop. An error ends the run with that error.
  using Prompt = std::function<Status(const DebugStop&)>;
  Debugger(Options options, Prompt prompt)
      : options_(std::move(options)), prompt_(std::move(prompt)), recorder_(options_.recorder) {}

  // Choose how the run continues; the last call applies. Breakpoints apply in addition.
  void RunSteps(int64_t count) { Go(Mode::kSteps, count); }  // to the end of the count-th step, including this one
  void StepInstructions(int64_t count) { Go(Mode::kInstructions, count); }
  void RunUntil(WatchCondition condition) {
    Go(Mode::kCondition, 0);
    condition_ = std::move(condition);
  }
  void RunToEnd() { Go(Mode::kToEnd, 0); }
  std::set<std::string, std::less<>>& breakpoints() { return breakpoints_; }  // node names

  const Recorder& recorder() const { return recorder_; }
  int64_t steps() const { return steps_; }                             // finished steps
  const Program* step_program() const { return step_program_.get(); }  // the last program that ran as a step

  // Implementation of RunObserver.
  void Begin(const Program& program, int index, const KernelContext& context) override;
  Status End(const Program& program, int index, const KernelContext& context) override;
  void Failed(const Program& program, int index, const Status& status) override;

 private:
  enum class Mode { kSteps, kInstructions, kCondition, kToEnd };
  void Go(Mode mode, int64_t count) {
    mode_ = mode;
    count_ = count;
  }
  DebugStop StopAt(DebugStop::Why why, const Program& program, int index) const;

  const Options options_;
  const Prompt prompt_;
  Recorder recorder_;
  Mode mode_ = Mode::kToEnd;
  int64_t count_ = 0;
  std::optional<WatchCondition> condition_;
  std::set<std::string, std::less<>> breakpoints_;
  std::string phase_;
  int64_t steps_ = 0;
  std::shared_ptr<const Program> step_program_;
  bool failed_ = false;
};

}  // namespace rivulet
