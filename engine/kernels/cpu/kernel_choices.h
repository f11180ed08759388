// The static table of kernels, as this CPU reads it: nothing is timed, so it is the same in every run.
#pragma once

#include <string>

#include "engine/base/status.h"
#include "engine/program/kernel.h"

namespace rivulet {

// One line for each of some typical products and convolutions: op, type, shapes, and the implementation that a program
// binds. The first line names the instruction set of our own kernels.
StatusOr<std::string> KernelChoices(const KernelPolicy& policy = {});

}  // namespace rivulet
