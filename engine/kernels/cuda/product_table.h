// Table of the products that cuBLASLt computes, fixed from measurements by `scripts/gpu.sh --part kernels`. Rivulet's
// kernels compute all others. The number of lanes never matters.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "engine/gpu/gpu_api.h"
#include "engine/kernels/cuda/library_product.h"

namespace rivulet::gpu {

// A class of shapes on one generation of devices. Rows are those of a batch, which may be a smaller last one; the other
// sizes are a layer's.
struct LibraryProduct {
  int32_t compute_major, compute_minor;
  std::string_view arithmetic;  // "float", "tf32"
  bool turn_a, turn_b;
  int32_t least_rows, most_rows, columns, depth;
  LibraryAlgorithm algorithm;
};

std::span<const LibraryProduct> LibraryProducts();

// nullopt: Rivulet's kernel. Never the library for several matrices per lane, Relu6, strides with gaps, float64.
std::optional<LibraryAlgorithm> LibraryFor(std::span<const LibraryProduct> table, const RivuletGpuProperties& device,
                                           std::string_view arithmetic, const ProductArguments& product);

}  // namespace rivulet::gpu
