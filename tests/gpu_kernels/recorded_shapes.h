// Which products and convolutions a step launches: it is run over a device whose kernels note their arguments and
// compute nothing.
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

// Adds what `program` launches. Its arguments' spans point nowhere.
Status RecordShapes(const RivuletGpuApi& backend, const GpuProgram& program, RecordedShapes& shapes);

}  // namespace rivulet
