#include "engine/debug/debugger.h"

#include <utility>

namespace rivulet {

DebugStop Debugger::StopAt(DebugStop::Why why, const Program& program, int index) const {
  const Instruction& call = program.instructions()[static_cast<size_t>(index)];
  DebugStop stop;
  stop.why = why;
  stop.phase = phase_;
  stop.step = steps_;
  stop.instruction = index;
  stop.instructions = static_cast<int>(program.instructions().size());
  stop.node = recorder_.Qualified(call.node);
  stop.op = call.op;
  stop.source_line = call.source_line;
  return stop;
}

// A new program begins a new record: the shell shows one run, and the previous one was already inspected.
void Debugger::Begin(const Program& program, int index, const KernelContext& context) {
  if (recorder_.depth() == 0 && index == 0) {
    recorder_.Clear();
    phase_ = options_.phase_of ? options_.phase_of(program) : "step";
    if (phase_ == "step") step_program_ = program.shared_from_this();
  }
  recorder_.Begin(program, index, context);
}

// Names are taken before the recorder closes the instruction, conditions are asked after it has the values. Where
// several reasons to stop meet, the most telling is said: a condition before a breakpoint, both before a count.
Status Debugger::End(const Program& program, int index, const KernelContext& context) {
  DebugStop stop = StopAt(DebugStop::Why::kInstruction, program, index);  // names need the open instructions
  const std::vector<const TensorRecord*> made = recorder_.End(program, index, context);
  const bool over = recorder_.depth() == 0 && index + 1 == stop.instructions;
  const bool step_over = over && phase_ == "step";
  steps_ += step_over;
  bool stops = false;
  if (mode_ == Mode::kCondition) {
    for (const TensorRecord* record : made) {
      if (!condition_->Holds(record->statistics)) continue;
      stop.why = DebugStop::Why::kCondition;
      stop.tensor = record->name;
      stop.condition = condition_->text();
      stops = true;
      break;
    }
  }
  if (!stops && breakpoints_.contains(stop.node)) {
    stop.why = DebugStop::Why::kBreakpoint;
    stops = true;
  }
  if (!stops && mode_ == Mode::kInstructions && --count_ <= 0) stops = true;
  if (!stops && mode_ == Mode::kSteps && step_over && --count_ <= 0) {
    stop.why = DebugStop::Why::kStep;
    stops = true;
  }
  return stops ? prompt_(stop) : absl::OkStatus();
}

void Debugger::Failed(const Program& program, int index, const Status& status) {
  // Stops only at the failed instruction, since an enclosing While or call also fails after it. The run ends with
  // `status`, whatever the prompt returns.
  if (!std::exchange(failed_, true)) {
    DebugStop stop = StopAt(DebugStop::Why::kFailed, program, index);
    stop.error = status;
    prompt_(stop).IgnoreError();
  }
  recorder_.Failed();
}

}  // namespace rivulet
