// Fusion of conversions between float32 and bfloat16 into the kernels that use their results. Weights are rounded in
// registers on their way into a product, and the factors of a gradient are read before they are widened. This saves
// memory traffic: a converted copy is neither written nor read.
#pragma once

#include <vector>

#include "engine/program/storage.h"

namespace rivulet {

// Removes every Cast to or from bfloat16 whose users can all read its input (ReadsBeforeCast), and replaces their
// kernels. The input must be unchanged until its last user: if a variable is written in between, its Cast stays.
// `steps` are in order, after ResolveVariableHazards; a later pass that moves updates finds the variables among the
// users' inputs.
void FuseCasts(std::vector<Storage>& storages, std::vector<Step>& steps);

}  // namespace rivulet
