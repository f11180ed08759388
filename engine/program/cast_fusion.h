// Fusion of conversions between float32 and bfloat16 into the kernels that use their results. Weights are rounded in
// registers on their way into a product, and the factors of a gradient are read before they are widened. This saves
// memory traffic: a converted copy is neither written nor read.
#pragma once

#include <vector>

#include "engine/program/storage.h"

namespace rivulet {

// Leaves out every Cast to or from bfloat16 whose users all can read what it casts (ReadsBeforeCast), and gives them
// the kernels that do. What is cast must be there until its last user: a variable that is written in between keeps its
// Cast. `steps` are in order, after ResolveVariableHazards; whoever moves updates later finds the variables among the
// users' inputs.
void FuseCasts(std::vector<Storage>& storages, std::vector<Step>& steps);

}  // namespace rivulet
