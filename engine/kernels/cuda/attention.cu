#include <limits>

#include "engine/kernels/cuda/attention.h"
#include "engine/kernels/cuda/block_sums.h"
#include "engine/kernels/cuda/elementwise_functions.h"

namespace rivulet::gpu {
namespace {

using functions::ExpOf;
using functions::TanhOf;

constexpr int kParts = 32, kRows = kBlockThreads / kParts;

struct Larger {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return b > a ? b : a;
  }
};

// Number of keys that a row's query may see by its position; 0 after the last row.
__device__ int Visible(const AttentionArguments& a, int row) {
  if (row >= a.rows) return 0;
  const int visible = a.first_visible + (row % a.time) * a.further;
  return visible < 0 ? 0 : visible < a.keys ? visible : a.keys;
}

// The mask's part for a row.
template <typename T>
struct MaskRow {
  const T* added = nullptr;
  const bool* allowed = nullptr;
  int32_t key = 0;

  __device__ MaskRow(const AttentionArguments& a, int lane, int row) : key(a.mask.key) {
    if (a.mask.given == 0 || row >= a.rows) return;
    const int time = row % a.time, head = row / a.time % a.mask.heads, example = row / a.time / a.mask.heads;
    const int64_t place = int64_t{example} * a.mask.batch + int64_t{head} * a.mask.head + int64_t{time} * a.mask.row;
    if (a.mask.is_bool != 0) {
      allowed = static_cast<const bool*>(a.mask.data.of(lane)) + place;
    } else {
      added = static_cast<const T*>(a.mask.data.of(lane)) + place;
    }
  }
  __device__ T operator()(T score, int j) const {
    if (added != nullptr) return score + added[int64_t{j} * key];
    return allowed == nullptr || allowed[int64_t{j} * key] ? score : -std::numeric_limits<T>::infinity();
  }
};

// Before the mask.
template <typename T>
__device__ T Capped(const AttentionArguments& a, T product) {
  const T score = product * static_cast<T>(a.scale);
  const T cap = static_cast<T>(a.softcap);
  return cap > T(0) ? cap * TanhOf(score / cap) : score;
}

template <typename T>
__device__ void Softmax(const AttentionArguments& a) {
  __shared__ T values[kBlockThreads];
  __shared__ double sums[kBlockThreads];
  const int lane = a.lanes.Number(blockIdx.z);
  const Team team = TeamOf(kParts, false);
  const int row = static_cast<int>(blockIdx.x) * kRows + team.member, visible = Visible(a, row);
  T* scores = static_cast<T*>(a.scores.of(lane)) + static_cast<int64_t>(row) * a.keys;
  const MaskRow<T> mask(a, lane, row);
  const auto score_of = [&](int j) { return mask(Capped(a, scores[j]), j); };
  T most = -std::numeric_limits<T>::infinity();
  bool any = false;
  for (int j = team.part; j < visible; j += kParts) {
    const T score = score_of(j);
    most = Larger()(most, score);
    any = any || score != score;
  }
  const T largest = JoinTeam(team, most, values, Larger());
  // A row with NaN is not unseen.
  const bool unseen =
      JoinTeam(team, any ? 1.0 : 0.0, sums, Larger()) == 0 && largest == -std::numeric_limits<T>::infinity();
  double total = 0;
  for (int j = team.part; !unseen && j < visible; j += kParts)
    total += static_cast<double>(ExpOf(score_of(j) - largest));
  total = SumOfTeam(team, total, sums);
  if (row >= a.rows) return;
  const T factor = static_cast<T>(1 / total);
  for (int j = team.part; j < a.keys; j += kParts)
    scores[j] = unseen || j >= visible ? T(0) : ExpOf(score_of(j) - largest) * factor;
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
  const T cap = static_cast<T>(a.softcap);
  const int visible = log_sum == -std::numeric_limits<T>::infinity() ? 0 : Visible(a, row);
  T* scores = static_cast<T*>(a.scores.of(lane)) + static_cast<int64_t>(row) * a.keys;
  T* gradients = static_cast<T*>(a.gradients.of(lane)) + static_cast<int64_t>(row) * a.keys;
  T* of_mask =
      a.of_mask.data == nullptr ? nullptr : static_cast<T*>(a.of_mask.of(lane)) + static_cast<int64_t>(row) * a.keys;
  const MaskRow<T> mask(a, lane, row);
  for (int j = team.part; j < a.keys; j += kParts) {
    const T score = j < visible ? Capped(a, scores[j]) : T(0);
    const T probability = j < visible ? ExpOf(mask(score, j) - log_sum) : T(0);
    const T of_score = j < visible ? probability * (gradients[j] - mean) : T(0);
    if (of_mask != nullptr) of_mask[j] = of_score;
    const T slope = cap > T(0) ? T(1) - score / cap * (score / cap) : T(1);
    gradients[j] = j < visible ? of_score * (cap > T(0) ? slope * scale : scale) : T(0);
    scores[j] = probability;
  }
}

// With a broadcast mask there are few elements, each a long sum that one thread adds in order.
template <typename T>
__device__ void MaskGradient(const AttentionMaskGradientArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const T* of_mask = static_cast<const T*>(a.of_mask.of(lane));
  T* gradient = static_cast<T*>(a.gradient.of(lane));
  for (int64_t i = FirstElement(); i < a.elements; i += ElementStride()) {
    int64_t first[4], end[4], rest = i;
    for (int axis = 3; axis >= 0; --axis) {
      const bool whole = a.dims[axis] == 1;
      first[axis] = whole ? 0 : rest % a.dims[axis];
      end[axis] = whole ? a.sizes[axis] : first[axis] + 1;
      rest /= a.dims[axis];
    }
    double sum = 0;
    for (int64_t b = first[0]; b < end[0]; ++b)
      for (int64_t h = first[1]; h < end[1]; ++h)
        for (int64_t t = first[2]; t < end[2]; ++t)
          for (int64_t k = first[3]; k < end[3]; ++k)
            sum += static_cast<double>(of_mask[((b * a.sizes[1] + h) * a.sizes[2] + t) * a.sizes[3] + k]);
    gradient[i] = static_cast<T>(sum);
  }
}

Grid GridOverRows(const AttentionArguments& a) {
  return {static_cast<uint32_t>((a.rows + kRows - 1) / kRows), 1, static_cast<uint32_t>(a.lanes.count), kBlockThreads};
}

#define RIVULET_GPU_ATTENTION_KERNELS(T)                                                                       \
  __global__ void AttentionSoftmax_##T(AttentionArguments a) { Softmax<T>(a); }                                \
  RIVULET_GPU_KERNEL("attention_softmax_" #T, AttentionArguments, AttentionSoftmax_##T, GridOverRows(a));      \
  __global__ void AttentionGradient_##T(AttentionArguments a) { Gradient<T>(a); }                              \
  RIVULET_GPU_KERNEL("attention_gradient_" #T, AttentionArguments, AttentionGradient_##T, GridOverRows(a));    \
  __global__ void AttentionMaskGradient_##T(AttentionMaskGradientArguments a) { MaskGradient<T>(a); }          \
  RIVULET_GPU_KERNEL("attention_mask_gradient_" #T, AttentionMaskGradientArguments, AttentionMaskGradient_##T, \
                     GridOver(a.elements, a.lanes));
RIVULET_GPU_ATTENTION_KERNELS(float)
RIVULET_GPU_ATTENTION_KERNELS(double)

}  // namespace
}  // namespace rivulet::gpu
