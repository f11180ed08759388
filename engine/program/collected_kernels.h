// Staging area for the kernels of an op library while it is being loaded (engine/program/op_library.h).
#pragma once

#include <string>
#include <vector>

#include "engine/program/kernel.h"

namespace rivulet::internal {

struct CollectedKernel {
  std::string op;
  Device device;
  DType dtype;
  PrepareFn prepare;
  std::string file;
  int line;
};
// Of the calling thread; null, as nearly always, means the registry.
std::vector<CollectedKernel>*& CollectedKernels();

}  // namespace rivulet::internal
