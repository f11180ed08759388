#include "engine/program/gpu_kernel.h"

namespace rivulet {

Status GpuKernel::Run(const KernelContext&) const {
  return Internal("a kernel of a GPU was run on the host; compile the program for one device");
}

}  // namespace rivulet
