// Joins functions of elements that follow each other into one kernel of a device (engine/program/gpu_elements.h): what
// the one makes and only the other reads is never in memory.
#pragma once

#include <vector>

#include "engine/program/storage.h"

namespace rivulet {

// A step goes to the place of the one that it is joined with, which is behind it, and only where nothing between the
// two changes what it reads. Bits stay the same.
void FuseElements(std::vector<Storage>& storages, std::vector<Step>& steps);

}  // namespace rivulet
