// A product or a convolution of several lanes on a device, over memory of its own: by our kernel; a product by cuBLASLt
// too, a convolution by im2col.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/gpu/gpu_device.h"
#include "engine/kernels/cuda/library_product.h"
#include "tests/gpu_kernels/convolution_sizes.h"

namespace rivulet {

struct MeasureOptions {
  int lanes = 32;
  int times = 50;                            // launches that are timed together
  int64_t most_elements = int64_t{1} << 28;  // of one tensor of all lanes: what is larger is left out
};

struct Measured {
  double ours_microseconds = 0;
  // Of a product: the fastest of the library's whose results are ours but for rounding, with the same bits for any
  // lanes.
  std::optional<double> library_microseconds;
  std::optional<gpu::LibraryAlgorithm> algorithm;
  std::string library;  // what was tried, or why nothing was
  // Of a convolution, or its filter's gradient: the patches made in memory, and one strided product with them.
  std::optional<double> im2col_microseconds;
};

// UNAVAILABLE: larger than the options allow. INTERNAL: im2col gives another result.
StatusOr<Measured> MeasureProduct(GpuDevice& device, const gpu::ProductArguments& shape, const MeasureOptions& options);
StatusOr<Measured> MeasureConvolution(GpuDevice& device, const gpu::ConvolutionArguments& shape,
                                      gpu::ConvolutionDirection direction, const MeasureOptions& options);

}  // namespace rivulet
