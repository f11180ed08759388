#include <limits>

#include "engine/kernels/cuda/attention.h"
#include "engine/kernels/cuda/block_sums.h"
#include "engine/kernels/cuda/elementwise_functions.h"

namespace rivulet::gpu {
namespace {

using functions::ExpOf;

constexpr int kParts = 32, kRows = kBlockThreads / kParts;

struct Larger {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return b > a ? b : a;
  }
};

// Keys that a row's query may see by its place; none beyond the last row.
__device__ int Visible(const AttentionArguments& a, int row) {
  if (row >= a.rows) return 0;
  const int visible = a.first_visible + (row % a.time) * a.further;
  return visible < 0 ? 0 : visible < a.keys ? visible : a.keys;
}

template <typename T>
__device__ void Softmax(const AttentionArguments& a) {
  __shared__ T values[kBlockThreads];
  __shared__ double sums[kBlockThreads];
  const int lane = a.lanes.Number(blockIdx.z);
  const Team team = TeamOf(kParts, false);
  const int row = static_cast<int>(blockIdx.x) * kRows + team.member, visible = Visible(a, row);
  T* scores = static_cast<T*>(a.scores.of(lane)) + static_cast<int64_t>(row) * a.keys;
  const T scale = static_cast<T>(a.scale);
  T most = -std::numeric_limits<T>::infinity();
  bool any = false;
  for (int j = team.part; j < visible; j += kParts) {
    const T score = scores[j] * scale;
    most = Larger()(most, score);
    any = any || score != score;
  }
  const T largest = JoinTeam(team, most, values, Larger());
  // NaN alone is no absence.
  const bool unseen =
      JoinTeam(team, any ? 1.0 : 0.0, sums, Larger()) == 0 && largest == -std::numeric_limits<T>::infinity();
  double total = 0;
  for (int j = team.part; !unseen && j < visible; j += kParts)
    total += static_cast<double>(ExpOf(scores[j] * scale - largest));
  total = SumOfTeam(team, total, sums);
  if (row >= a.rows) return;
  const T factor = static_cast<T>(1 / total);
  for (int j = team.part; j < a.keys; j += kParts)
    scores[j] = unseen || j >= visible ? T(0) : ExpOf(scores[j] * scale - largest) * factor;
  if (team.part == 0)
    static_cast<T*>(a.log_sum.of(lane))[row] = unseen ? largest : largest + static_cast<T>(log(total));
}

template <typename T>
__device__ void Gradient(const AttentionArguments& a) {
  __shared__ double sums[kBlockThreads];
  const int lane = a.lanes.Number(blockIdx.z);
  const Team team = TeamOf(kParts, false);
  const int row = static_cast<int>(blockIdx.x) * kRows + team.member;
  const bool inside = row < a.rows;
  const int64_t of_width = static_cast<int64_t>(row) * a.width;
  const T *output = static_cast<const T*>(a.output.of(lane)), *grad = static_cast<const T*>(a.output_grad.of(lane));
  double product = 0;
  for (int i = team.part; inside && i < a.width; i += kParts)
    product += static_cast<double>(output[of_width + i]) * static_cast<double>(grad[of_width + i]);
  const T mean = static_cast<T>(SumOfTeam(team, product, sums));
  if (!inside) return;
  const T log_sum = static_cast<const T*>(a.log_sums.of(lane))[row], scale = static_cast<T>(a.scale);
  const int visible = log_sum == -std::numeric_limits<T>::infinity() ? 0 : Visible(a, row);
  T* scores = static_cast<T*>(a.scores.of(lane)) + static_cast<int64_t>(row) * a.keys;
  T* gradients = static_cast<T*>(a.gradients.of(lane)) + static_cast<int64_t>(row) * a.keys;
  for (int j = team.part; j < a.keys; j += kParts) {
    const T probability = j < visible ? ExpOf(scores[j] * scale - log_sum) : T(0);
    gradients[j] = j < visible ? probability * (gradients[j] - mean) * scale : T(0);
    scores[j] = probability;
  }
}

Grid GridOverRows(const AttentionArguments& a) {
  return {static_cast<uint32_t>((a.rows + kRows - 1) / kRows), 1, static_cast<uint32_t>(a.lanes.count), kBlockThreads};
}

#define RIVULET_GPU_ATTENTION_KERNELS(T)                                                                  \
  __global__ void AttentionSoftmax_##T(AttentionArguments a) { Softmax<T>(a); }                           \
  RIVULET_GPU_KERNEL("attention_softmax_" #T, AttentionArguments, AttentionSoftmax_##T, GridOverRows(a)); \
  __global__ void AttentionGradient_##T(AttentionArguments a) { Gradient<T>(a); }                         \
  RIVULET_GPU_KERNEL("attention_gradient_" #T, AttentionArguments, AttentionGradient_##T, GridOverRows(a));
RIVULET_GPU_ATTENTION_KERNELS(float)
RIVULET_GPU_ATTENTION_KERNELS(double)

}  // namespace
}  // namespace rivulet::gpu
