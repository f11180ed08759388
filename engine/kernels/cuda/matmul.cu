// Matrix products with any strides, many at once.
#include "engine/kernels/cuda/matmul.h"
#include "engine/kernels/cuda/product_result.h"
#include "engine/kernels/cuda/product_tile.h"

namespace rivulet::gpu {
namespace {

// A matrix of `lines` rows (or columns) by `depths`. Positions have 32 bits, because a thread keeps many of them, and
// are negative outside the matrix.
template <typename T, bool kAlong>
struct Matrix {
  using Element = T;
  static constexpr bool kAlongDepth = kAlong;
  struct Line {
    int32_t place;
  };
  struct Depth {
    int32_t place;
  };
  const T* data;
  int64_t line_stride, depth_stride;
  int lines, depths;

  __device__ Line line(int i) const { return {i < lines ? static_cast<int>(i * line_stride) : -1}; }
  __device__ Depth depth(int k) const { return {k < depths ? static_cast<int>(k * depth_stride) : -1}; }
  __device__ T at(const Line& line, const Depth& depth) const {
    return (line.place | depth.place) >= 0 ? data[line.place + depth.place] : T(0);
  }
};

template <bool kTensor, typename T, int kRows, int kColumns, bool kAlongA, bool kAlongB>
__device__ void Product(const ProductArguments& p) {
  const int lane = p.lanes.Number(blockIdx.z);
  uint32_t batch = blockIdx.x;
  const int chunk = static_cast<int>(p.chunks.count.Split(batch));
  const int column = static_cast<int>(p.column_tiles.Split(batch)) * 16 * kColumns;
  const int row = static_cast<int>(p.row_tiles.Split(batch)) * 16 * kRows;
  const Matrix<T, kAlongA> a = {static_cast<const T*>(p.a.of(lane)) + batch * p.a_batch, p.a_row, p.a_depth, p.rows,
                                p.depth};
  const Matrix<T, kAlongB> b = {static_cast<const T*>(p.b.of(lane)) + batch * p.b_batch, p.b_column, p.b_depth,
                                p.columns, p.depth};
  ComputeTile<kTensor, kRows, kColumns>(a, b, row, column, p.rows, p.columns, p.depth, p.chunks, chunk,
                                        static_cast<T*>(p.c.of(lane)) + batch * p.c_batch, p.c_row, p.epilogue, lane);
}

template <typename T>
__device__ void Join(const ProductJoinArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const T* partial = static_cast<const T*>(a.partial.of(lane));
  const T* bias = a.epilogue.bias.data == nullptr ? nullptr : static_cast<const T*>(a.epilogue.bias.of(lane));
  T* c = static_cast<T*>(a.c.of(lane));
  for (int64_t i = FirstElement(); i < a.elements; i += ElementStride()) {
    T sum = partial[i];
    for (int chunk = 1; chunk < a.chunks; ++chunk) sum = sum + partial[chunk * a.elements + i];
    uint32_t row = static_cast<uint32_t>(i);
    const int column = static_cast<int>(a.columns.Split(row));
    c[row * a.c_row + column] = Finished(sum, bias, column, a.epilogue.activation);
  }
}
#define RIVULET_GPU_JOIN_KERNEL(T)                                        \
  __global__ void ProductJoin_##T(ProductJoinArguments a) { Join<T>(a); } \
  RIVULET_GPU_KERNEL("product_join_" #T, ProductJoinArguments, ProductJoin_##T, GridOver(a.elements, a.lanes));
RIVULET_GPU_JOIN_KERNEL(float)
RIVULET_GPU_JOIN_KERNEL(double)

Grid GridOfProduct(const ProductArguments& p) {
  return {p.chunks.count.divisor * p.row_tiles.divisor * p.column_tiles.divisor * static_cast<uint32_t>(p.batches), 1,
          static_cast<uint32_t>(p.lanes.count), kTileThreads};
}

#define RIVULET_GPU_PRODUCT_KERNEL(tensor, name, T, tile, rows, columns, x, y, along_a, along_b)               \
  __global__ void __launch_bounds__(kTileThreads, 2) Product_##name##_##tile##_##x##y(ProductArguments p) {    \
    Product<tensor, T, rows, columns, along_a, along_b>(p);                                                    \
  }                                                                                                            \
  RIVULET_GPU_KERNEL("product_" #name "_" #tile "_" #x #y, ProductArguments, Product_##name##_##tile##_##x##y, \
                     GridOfProduct(a));
#define RIVULET_GPU_PRODUCT_KERNELS(tensor, name, T, tile, rows, columns)             \
  RIVULET_GPU_PRODUCT_KERNEL(tensor, name, T, tile, rows, columns, d, d, true, true)  \
  RIVULET_GPU_PRODUCT_KERNEL(tensor, name, T, tile, rows, columns, d, l, true, false) \
  RIVULET_GPU_PRODUCT_KERNEL(tensor, name, T, tile, rows, columns, l, d, false, true) \
  RIVULET_GPU_PRODUCT_KERNEL(tensor, name, T, tile, rows, columns, l, l, false, false)
#define RIVULET_GPU_FLOAT_PRODUCT(tile, rows, columns)                  \
  RIVULET_GPU_PRODUCT_KERNELS(false, float, float, tile, rows, columns) \
  RIVULET_GPU_PRODUCT_KERNELS(true, tf32, float, tile, rows, columns)
#define RIVULET_GPU_DOUBLE_PRODUCT(tile, rows, columns) \
  RIVULET_GPU_PRODUCT_KERNELS(false, double, double, tile, rows, columns)
RIVULET_GPU_TILES(RIVULET_GPU_FLOAT_PRODUCT)
RIVULET_GPU_DOUBLE_TILES(RIVULET_GPU_DOUBLE_PRODUCT)

}  // namespace
}  // namespace rivulet::gpu
