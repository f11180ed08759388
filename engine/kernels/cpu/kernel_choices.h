// The static table of kernels for this CPU: it involves no timing and is the same in every run.
#pragma once

#include <string>

#include "engine/base/status.h"
#include "engine/program/kernel.h"

namespace rivulet {

// Lines for some typical products and convolutions: op, type, shapes, and the implementation that a program binds. The
// first line names the instruction set of Rivulet's own kernels.
StatusOr<std::string> KernelChoices(const KernelPolicy& policy = {});

}  // namespace rivulet
