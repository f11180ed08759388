// A team of threads processes a row with two reductions: the mean, then the squares of the distances from it.
#include "engine/kernels/cuda/chunked_sums_device.h"
#include "engine/kernels/cuda/layer_norm.h"

namespace rivulet::gpu {
namespace {

constexpr int kParts = 32, kRows = kBlockThreads / kParts;

template <typename T>
__device__ void Forward(const LayerNormArguments& a) {
  __shared__ double shared[kBlockThreads];
  const int lane = a.lanes.Number(blockIdx.z);
  const Team team = TeamOf(kParts, false);
  const int row = static_cast<int>(blockIdx.x) * kRows + team.member;
  const bool inside = row < a.rows;
  const int64_t begin = static_cast<int64_t>(row) * a.width;
  const T* x = static_cast<const T*>(a.x.of(lane)) + begin;
  double sum = 0;
  for (int i = team.part; inside && a.centered != 0 && i < a.width; i += kParts) sum += static_cast<double>(x[i]);
  const double mean = SumOfTeam(team, sum, shared) / a.width;
  double squares = 0;
  for (int i = team.part; inside && i < a.width; i += kParts) {
    const double distance = static_cast<double>(x[i]) - mean;
    squares += distance * distance;
  }
  squares = SumOfTeam(team, squares, shared);
  if (!inside) return;
  const T center = static_cast<T>(mean), inverse = static_cast<T>(1.0 / sqrt(squares / a.width + a.epsilon));
  const T* scale = static_cast<const T*>(a.scale.of(lane));
  const T* offset = a.centered != 0 ? static_cast<const T*>(a.offset.of(lane)) : nullptr;
  T* y = static_cast<T*>(a.y.of(lane)) + begin;
  for (int i = team.part; i < a.width; i += kParts) {
    const T value = (x[i] - center) * inverse * scale[i];
    y[i] = offset != nullptr ? value + offset[i] : value;
  }
  if (team.part != 0) return;
  if (a.centered != 0) static_cast<T*>(a.mean.of(lane))[row] = center;
  static_cast<T*>(a.inverse.of(lane))[row] = inverse;
}

// dx = (dy · scale - m - (x - mean) · inverse² · d) · inverse, where m and d are the means over the row of dy · scale
// and of dy · scale times the distance; RmsNorm has no m.
template <typename T>
__device__ void Backward(const LayerNormArguments& a) {
  __shared__ double shared[kBlockThreads];
  const int lane = a.lanes.Number(blockIdx.z);
  const Team team = TeamOf(kParts, false);
  const int row = static_cast<int>(blockIdx.x) * kRows + team.member;
  const bool inside = row < a.rows;
  const int64_t begin = static_cast<int64_t>(row) * a.width;
  const T *x = static_cast<const T*>(a.x.of(lane)) + begin, *dy = static_cast<const T*>(a.dy.of(lane)) + begin;
  const T* scale = static_cast<const T*>(a.scale.of(lane));
  const T center = inside && a.centered != 0 ? static_cast<const T*>(a.mean_in.of(lane))[row] : T(0);
  double sums[2] = {0, 0};
  for (int i = team.part; inside && i < a.width; i += kParts) {
    const double gradient = static_cast<double>(dy[i] * scale[i]);
    sums[0] += gradient;
    sums[1] += gradient * static_cast<double>(x[i] - center);
  }
  sums[0] = SumOfTeam(team, sums[0], shared);
  sums[1] = SumOfTeam(team, sums[1], shared);
  if (!inside) return;
  const T inverse = static_cast<const T*>(a.inverse_in.of(lane))[row];
  const double factor = static_cast<double>(inverse);
  const T minus = a.centered != 0 ? static_cast<T>(sums[0] / a.width) : T(0);
  const T of_x = static_cast<T>(factor * factor * (sums[1] / a.width));
  T* dx = static_cast<T*>(a.y.of(lane)) + begin;
  for (int i = team.part; i < a.width; i += kParts)
    dx[i] = (dy[i] * scale[i] - minus - (x[i] - center) * of_x) * inverse;
}

template <typename T>
__device__ void Parameters(const LayerNormArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const T *x = static_cast<const T*>(a.x.of(lane)), *dy = static_cast<const T*>(a.dy.of(lane));
  const T* mean = a.centered != 0 ? static_cast<const T*>(a.mean_in.of(lane)) : nullptr;
  const T* inverse = static_cast<const T*>(a.inverse_in.of(lane));
  SumChunks<2>(a.sums, lane, [&](int column, int row, double(&sums)[2]) {
    const int64_t at = static_cast<int64_t>(row) * a.width + column;
    const T distance = mean != nullptr ? x[at] - mean[row] : x[at];
    sums[0] += static_cast<double>(dy[at]) * static_cast<double>(distance * inverse[row]);
    sums[1] += static_cast<double>(dy[at]);
  });
}

Grid GridOverRows(const LayerNormArguments& a) {
  return {static_cast<uint32_t>((a.rows + kRows - 1) / kRows), 1, static_cast<uint32_t>(a.lanes.count), kBlockThreads};
}

#define RIVULET_GPU_LAYER_NORM_KERNELS(T)                                                            \
  __global__ void LayerNorm_##T(LayerNormArguments a) { Forward<T>(a); }                             \
  RIVULET_GPU_KERNEL("layer_norm_" #T, LayerNormArguments, LayerNorm_##T, GridOverRows(a));          \
  __global__ void LayerNormGrad_##T(LayerNormArguments a) { Backward<T>(a); }                        \
  RIVULET_GPU_KERNEL("layer_norm_grad_" #T, LayerNormArguments, LayerNormGrad_##T, GridOverRows(a)); \
  __global__ void LayerNormParameters_##T(LayerNormArguments a) { Parameters<T>(a); }                \
  RIVULET_GPU_KERNEL("layer_norm_parameters_" #T, LayerNormArguments, LayerNormParameters_##T,       \
                     (Grid{a.sums.blocks(), 1, static_cast<uint32_t>(a.lanes.count), kBlockThreads}));
RIVULET_GPU_LAYER_NORM_KERNELS(float)
RIVULET_GPU_LAYER_NORM_KERNELS(double)

}  // namespace
}  // namespace rivulet::gpu
