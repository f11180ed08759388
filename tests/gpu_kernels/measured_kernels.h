// Measurement of a product or convolution of several lanes on a device, with its own memory: Rivulet's kernel, and for
// comparison cuBLASLt for products and im2col for convolutions.
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
  int times = 50;                            // launches timed together
  int64_t most_elements = int64_t{1} << 28;  // of one tensor of all lanes: larger ones are skipped
};

struct Measured {
  double ours_microseconds = 0;
  // For products: the library's fastest algorithm whose results equal Rivulet's up to rounding, with the same bits for
  // any number of lanes.
  std::optional<double> library_microseconds;
  std::optional<gpu::LibraryAlgorithm> algorithm;
  std::string library;  // algorithms tried, or the reason for none
  // For a convolution or its filter's gradient: patches made in memory, and one strided product with them.
  std::optional<double> im2col_microseconds;
};

// UNAVAILABLE: larger than the options allow. INTERNAL: im2col gives a different result.
StatusOr<Measured> MeasureProduct(GpuDevice& device, const gpu::ProductArguments& shape, const MeasureOptions& options);
StatusOr<Measured> MeasureConvolution(GpuDevice& device, const gpu::ConvolutionArguments& shape,
                                      gpu::ConvolutionDirection direction, const MeasureOptions& options);

}  // namespace rivulet
