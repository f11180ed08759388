// The products and convolutions launched by a step, recorded on a device whose kernels note their arguments and compute
// nothing.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/gpu/gpu_device.h"
#include "engine/program/gpu_program.h"
#include "tests/gpu_kernels/convolution_sizes.h"

namespace rivulet {

struct RecordedConvolution {
  gpu::ConvolutionArguments arguments;
  gpu::ConvolutionDirection direction;
};

struct RecordedShapes {
  std::vector<gpu::ProductArguments> products;  // each shape once, in order of the steps
  std::vector<RecordedConvolution> convolutions;
};

// Adds the launches of `program`. The spans in its arguments are invalid.
Status RecordShapes(const RivuletGpuApi& backend, const GpuProgram& program, RecordedShapes& shapes);

}  // namespace rivulet
