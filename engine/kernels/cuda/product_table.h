// Table of the products that cuBLASLt computes, frozen from measurements of `scripts/gpu.sh --part kernels`. Our
// kernels compute all others. The number of lanes never matters.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "engine/gpu/gpu_api.h"
#include "engine/kernels/cuda/library_product.h"

namespace rivulet::gpu {

// A class of shapes on one generation of devices. Rows are a batch's, which may be a smaller last one; the other sizes
// are a layer's own.
struct LibraryProduct {
  int32_t compute_major, compute_minor;
  std::string_view arithmetic;  // "float", "tf32"
  bool turn_a, turn_b;
  int32_t least_rows, most_rows, columns, depth;
  LibraryAlgorithm algorithm;
};

std::span<const LibraryProduct> LibraryProducts();

// None: our own kernel. Never the library's: several matrices a lane, Relu6, strides with gaps, float64.
std::optional<LibraryAlgorithm> LibraryFor(std::span<const LibraryProduct> table, const RivuletGpuProperties& device,
                                           std::string_view arithmetic, const ProductArguments& product);

}  // namespace rivulet::gpu
