// Fusion of consecutive elementwise functions into one device kernel (engine/program/gpu_elements.h): a value with one
// consumer never reaches memory.
#pragma once

#include <vector>

#include "engine/program/storage.h"

namespace rivulet {

// A step goes to the place of the one that it is joined with, which is behind it, and only where nothing between the
// two changes what it reads. Bits stay the same.
void FuseElements(std::vector<Storage>& storages, std::vector<Step>& steps);

}  // namespace rivulet
