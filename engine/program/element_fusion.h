// Fusion of consecutive elementwise functions into one device kernel (engine/program/gpu_elements.h): a value with one
// consumer never reaches memory.
#pragma once

#include <vector>

#include "engine/program/storage.h"

namespace rivulet {

// A step is moved to the later step that it is joined with, and only if nothing in between changes its inputs. Results
// do not change.
void FuseElements(std::vector<Storage>& storages, std::vector<Step>& steps);

}  // namespace rivulet
