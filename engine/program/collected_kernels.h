// Staging area for the kernels of an op library during loading (engine/program/op_library.h).
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
// For the calling thread; null, as almost always, means the registry.
std::vector<CollectedKernel>*& CollectedKernels();

}  // namespace rivulet::internal
