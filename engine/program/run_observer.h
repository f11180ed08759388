// Observer of a run, such as a profiler or debugger. The program does not depend on the observer.
#pragma once

#include "engine/base/status.h"

namespace rivulet {

class Program;
struct KernelContext;

// Called on the thread that runs the instance, also for programs inside If, While and calls (between Begin and End of
// the instruction that runs them). An observer may serve several threads only if its class says so.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  // Called before and after instruction `index` of `program` (Program::instructions). `context` has the addresses of
  // its inputs, outputs and variables, with the types and shapes of instruction.inputs and .outputs. Outputs are valid
  // in End; later instructions reuse memory, so an observer must copy the values that it keeps.
  virtual void Begin(const Program& program, int index, const KernelContext& context) = 0;
  // An error ends the run with that error. Not called if the kernel failed: then Failed is.
  virtual Status End(const Program& program, int index, const KernelContext& context) = 0;
  virtual void Failed(const Program& program, int index, const Status& status) {
    (void)program, (void)index, (void)status;
  }
};

}  // namespace rivulet
