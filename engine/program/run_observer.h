// Observer of a run, such as a profiler or debugger. The program is the same with and without one.
#pragma once

#include "engine/base/status.h"

namespace rivulet {

class Program;
struct KernelContext;

// Called on the thread that runs the instance, also for the programs inside of If, While and calls (between Begin and
// End of the instruction that runs them). One observer may serve several threads only if it says so.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  // Before and after instruction `index` of `program` (Program::instructions). `context` has the addresses of its
  // inputs, outputs and variables; what instruction.inputs and .outputs say of types and shapes holds for them. Outputs
  // are valid in End; memory is reused by later instructions, so what is to be kept is copied there.
  virtual void Begin(const Program& program, int index, const KernelContext& context) = 0;
  // An error ends the run with it, as it is. Not called when the kernel failed: Failed is.
  virtual Status End(const Program& program, int index, const KernelContext& context) = 0;
  virtual void Failed(const Program& program, int index, const Status& status) {
    (void)program, (void)index, (void)status;
  }
};

}  // namespace rivulet
