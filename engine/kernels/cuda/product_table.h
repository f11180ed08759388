// Which products are cuBLASLt's: a table, frozen from what `scripts/gpu.sh --part kernels` has measured and printed.
// What is not in it is our own kernel's. Never asked: how many lanes there are.
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
