// Device copies inserted by lowering: assignments, reads that a later write would overwrite, and fetches.
#pragma once

#include <cstddef>
#include <memory>

#include "engine/program/kernel.h"

namespace rivulet {

// A GpuKernel with one input and one output, which are disjoint or identical.
std::unique_ptr<const Kernel> NewGpuCopy(size_t bytes);

}  // namespace rivulet
