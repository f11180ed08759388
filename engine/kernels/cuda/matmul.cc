// Adapters of matmul.cu.
#include "engine/kernels/cuda/matmul.h"

#include <algorithm>

#include "engine/kernels/cuda/product_launch.h"
#include "engine/kernels/cuda/product_table.h"

namespace rivulet::gpu {

Tile TileFor(DType dtype, int64_t rows, int64_t columns) {
#define RIVULET_GPU_TILE(tile, r, c) constexpr Tile tile{#tile, 16 * r, 16 * c};
  RIVULET_GPU_TILES(RIVULET_GPU_TILE)
  if (dtype == DType::kFloat64) return t64x64;
  if (rows <= 16) return t16x64;
  if (columns <= 32) return rows < 512 ? t64x32 : t128x32;
  if (rows < 512) return t64x64;
  return columns < 128 ? t128x64 : t128x128;
}

// Limits: too few blocks leave most of a device idle, and short chunks cost hardly more than their blocks' start.
DepthChunks ChunksFor(const Tile& tile, int64_t rows, int64_t columns, int64_t depth) {
  constexpr int64_t kBlocks = 32, kLeastDepth = 256, kMultiple = 32;
  const int64_t tiles = std::max<int64_t>(TilesOf(rows, tile.rows).divisor * TilesOf(columns, tile.columns).divisor, 1);
  const int64_t most = std::clamp<int64_t>(kBlocks / tiles, 1, std::max<int64_t>(depth / kLeastDepth, 1));
  const int64_t each = ((depth + most - 1) / most + kMultiple - 1) / kMultiple * kMultiple;
  DepthChunks chunks{};
  chunks.count = TilesOf(depth, std::max<int64_t>(each, 1));
  chunks.depth = static_cast<int32_t>(each);
  return chunks;
}

size_t PartialBytes(const DepthChunks& chunks, DType dtype, int64_t rows, int64_t columns) {
  return chunks.count.divisor == 1 ? 0 : chunks.count.divisor * static_cast<size_t>(rows * columns) * SizeOf(dtype);
}

Status JoinChunks(const GpuContext& context, const DepthChunks& chunks, DType dtype, int64_t rows, int64_t columns,
                  LaneSpan<void> c, int64_t c_row, const Epilogue& epilogue) {
  ProductJoinArguments join{};
  join.partial = {chunks.partial.data, chunks.partial.lane_stride};
  join.c = c;
  join.epilogue = epilogue;
  join.elements = rows * columns;
  join.columns = Divider::Of(columns);
  join.c_row = c_row;
  join.chunks = static_cast<int32_t>(chunks.count.divisor);
  return Put(context, fmt::format("product_join_{}", dtype == DType::kFloat64 ? "double" : "float"), join);
}

std::string_view ArithmeticOf(const GpuContext& context, DType dtype) {
  if (dtype == DType::kFloat64) return kTypeText<double>;
  return context.narrow_factors || context.stream->device().allows_tf32() ? "tf32" : kTypeText<float>;
}

Status PutProduct(const GpuContext& context, DType dtype, ProductArguments p) {
  if (p.rows == 0 || p.columns == 0 || p.batches == 0) return absl::OkStatus();
  const std::string_view arithmetic = ArithmeticOf(context, dtype);
  const auto library = LibraryFor(LibraryProducts(), context.stream->device().properties(), arithmetic, p);
  if (library) {
    p.lanes = {context.lanes.count, context.lanes.ids};
    const Status put =
        context.stream->Launch(fmt::format("library_product_{}", arithmetic), LibraryProductArguments{p, *library});
    if (!absl::IsNotFound(put)) return put;  // without the library, or its expected version: Rivulet's kernel
  }
  const Tile tile = Divide(dtype, p.batches == 1, p);
  RIVULET_RETURN_IF_ERROR(Put(
      context,
      fmt::format("product_{}_{}_{}{}", arithmetic, tile.name, p.a_depth == 1 ? 'd' : 'l', p.b_depth == 1 ? 'd' : 'l'),
      p));
  if (p.chunks.count.divisor == 1) return absl::OkStatus();
  return JoinChunks(context, p.chunks, dtype, p.rows, p.columns, p.c, p.c_row, p.epilogue);
}

ProductArguments ProductOfMatrices(int64_t rows, int64_t columns, int64_t depth, bool turn_a, bool turn_b) {
  ProductArguments p{};
  p.rows = static_cast<int32_t>(rows);
  p.columns = static_cast<int32_t>(columns);
  p.depth = static_cast<int32_t>(depth);
  p.batches = 1;
  p.a_row = turn_a ? 1 : depth;
  p.a_depth = turn_a ? rows : 1;
  p.b_column = turn_b ? depth : 1;
  p.b_depth = turn_b ? 1 : columns;
  p.c_row = columns;
  p.a_batch = rows * depth;
  p.b_batch = depth * columns;
  p.c_batch = rows * columns;
  return p;
}

namespace {

double Flops(const ProductArguments& p) { return 2.0 * p.rows * p.columns * static_cast<double>(p.depth) * p.batches; }

// The product over the last two axes.
StatusOr<ProductArguments> ProductOf(const NodeView& node, bool turn_a, bool turn_b) {
  const Shape &a = node.inputs[0].shape, &b = node.inputs[1].shape;
  if (a.rank() < 2 || b.rank() < 2)
    return InvalidArgument("matrices have 2 dimensions, not {} and {}", a.ToString(), b.ToString());
  for (const Shape* shape : {&a, &b, &node.outputs[0].shape})
    RIVULET_RETURN_IF_ERROR(CountOf(shape->elements()).status());
  const int64_t m = a.dim(a.rank() - (turn_a ? 1 : 2)), k = a.dim(a.rank() - (turn_a ? 2 : 1));
  const int64_t n = b.dim(b.rank() - (turn_b ? 2 : 1));
  if (b.dim(b.rank() - (turn_b ? 1 : 2)) != k)
    return InvalidArgument("the inner dimensions of {} and {} differ", a.ToString(), b.ToString());
  return ProductOfMatrices(m, n, k, turn_a, turn_b);
}

// `bias`: input 2 is a bias.
Prepared Multiplying(const NodeView& node, const ProductArguments& arguments, bool bias) {
  const DType dtype = node.outputs[0].dtype;
  const Tile tile = TileFor(dtype, arguments.rows, arguments.columns);
  Prepared prepared = Launching(
      [arguments, bias, dtype](const GpuContext& c) {
        ProductArguments p = arguments;
        p.chunks.partial = SpanOf<void>(c.scratch);
        p.a = InputOf<void>(c, 0);
        p.b = InputOf<void>(c, 1);
        p.c = OutputOf<void>(c, 0);
        if (bias) p.epilogue.bias = InputOf<void>(c, 2);
        return PutProduct(c, dtype, p);
      },
      Flops(arguments));
  if (arguments.batches == 1) {
    prepared.scratch_bytes = PartialBytes(ChunksFor(tile, arguments.rows, arguments.columns, arguments.depth), dtype,
                                          arguments.rows, arguments.columns);
  }
  prepared.implementation = fmt::format("cuda {}", tile.name);
  return prepared;
}

StatusOr<Prepared> PrepareMatMul(const NodeView& node, const KernelPolicy&) {
  if (node.inputs[0].shape.rank() != 2 || node.inputs[1].shape.rank() != 2)
    return InvalidArgument("matrices have 2 dimensions, not {} and {}", node.inputs[0].shape.ToString(),
                           node.inputs[1].shape.ToString());
  RIVULET_ASSIGN_OR_RETURN(const ProductArguments arguments,
                           ProductOf(node, node.attr<bool>("transpose_a"), node.attr<bool>("transpose_b")));
  return Multiplying(node, arguments, false);
}

StatusOr<Prepared> PrepareFusedMatMul(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(ProductArguments arguments,
                           ProductOf(node, node.attr<bool>("transpose_a"), node.attr<bool>("transpose_b")));
  RIVULET_ASSIGN_OR_RETURN(const FusedOps fused, FusedOpsOf(node.node.attrs()));
  if (fused.bias && (node.inputs.size() != 3 || node.inputs[2].shape != Shape({arguments.columns})))
    return InvalidArgument("BiasAdd needs one arg, a bias of {} columns", arguments.columns);
  arguments.epilogue.activation = ActivationOf(fused.activation);
  return Multiplying(node, arguments, fused.bias);
}

// Equal batch sizes; a batch of 1 beside another of many is shared by all of them.
StatusOr<Prepared> PrepareBatchMatMul(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(ProductArguments arguments,
                           ProductOf(node, node.attr<bool>("adj_x"), node.attr<bool>("adj_y")));
  const auto batches = [](const Shape& shape) {
    int64_t count = 1;
    for (int axis = 0; axis + 2 < shape.rank(); ++axis) count *= shape.dim(axis);
    return count;
  };
  const int64_t a = batches(node.inputs[0].shape), b = batches(node.inputs[1].shape),
                c = batches(node.outputs[0].shape);
  if ((a != c && a != 1) || (b != c && b != 1))
    return Unimplemented(
        "products of {} and {} matrices that repeat along some axes alone, on a GPU; broadcast them first", a, b);
  arguments.batches = static_cast<int32_t>(c);
  if (a == 1) arguments.a_batch = 0;
  if (b == 1) arguments.b_batch = 0;
  return Multiplying(node, arguments, false);
}

#define RIVULET_GPU_MATMUL(T)                                           \
  RIVULET_KERNEL("MatMul", Device::kCuda, T, PrepareMatMul);            \
  RIVULET_KERNEL("_FusedMatMul", Device::kCuda, T, PrepareFusedMatMul); \
  RIVULET_KERNEL("BatchMatMul", Device::kCuda, T, PrepareBatchMatMul);  \
  RIVULET_KERNEL("BatchMatMulV2", Device::kCuda, T, PrepareBatchMatMul)
RIVULET_GPU_MATMUL(float);
RIVULET_GPU_MATMUL(double);

}  // namespace
}  // namespace rivulet::gpu
