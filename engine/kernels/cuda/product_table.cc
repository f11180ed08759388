#include "engine/kernels/cuda/product_table.h"

#include <algorithm>
#include <vector>

namespace rivulet::gpu {
namespace {

// {major, minor, arithmetic, turn_a, turn_b, least_rows, most_rows, columns, depth, {id, tile, stages, swizzling,
// custom, inner_shape, cluster_shape}}. Nothing has been measured yet.
const std::vector<LibraryProduct>& Table() {
  static const std::vector<LibraryProduct> table;
  return table;
}

bool HasGaps(const ProductArguments& p, bool turn_a, bool turn_b) {
  return p.a_row != (turn_a ? 1 : p.depth) || p.a_depth != (turn_a ? p.rows : 1) ||
         p.b_column != (turn_b ? p.depth : 1) || p.b_depth != (turn_b ? 1 : p.columns) || p.c_row != p.columns;
}

}  // namespace

std::span<const LibraryProduct> LibraryProducts() { return Table(); }

std::optional<LibraryAlgorithm> LibraryFor(std::span<const LibraryProduct> table, const RivuletGpuProperties& device,
                                           std::string_view arithmetic, const ProductArguments& product) {
  if (product.batches != 1 || product.epilogue.activation == kRelu6) return std::nullopt;
  const auto is_it = [&](const LibraryProduct& row) {
    return row.compute_major == device.compute_major && row.compute_minor == device.compute_minor &&
           row.arithmetic == arithmetic && row.columns == product.columns && row.depth == product.depth &&
           row.least_rows <= product.rows && product.rows <= row.most_rows && !HasGaps(product, row.turn_a, row.turn_b);
  };
  const auto found = std::ranges::find_if(table, is_it);
  if (found == table.end()) return std::nullopt;
  return found->algorithm;
}

}  // namespace rivulet::gpu
