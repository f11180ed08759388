// A team of threads processes a row: its largest element, and the sum of the exponentials of the distances from it, in
// double. NaN and +infinity in a row make it NaN.
#include <limits>

#include "engine/kernels/cuda/block_sums.h"
#include "engine/kernels/cuda/elementwise_functions.h"
#include "engine/kernels/cuda/softmax.h"

namespace rivulet::gpu {
namespace {

constexpr int kParts = 32, kRows = kBlockThreads / kParts;

// Ignores NaN, which makes the sum of exponentials NaN.
struct Larger {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return b > a ? b : a;
  }
};

// Shared results of a row's threads: its largest element, and the sum of the exponentials of distances from it.
template <typename T>
struct RowOfLogits {
  T largest;
  double sum;

  // `row(i)` is element i of this thread's row; `inside`: the thread has a row.
  template <typename Row>
  __device__ RowOfLogits(const Team& team, bool inside, int classes, const Row& row) {
    __shared__ T values[kBlockThreads];
    __shared__ double sums[kBlockThreads];
    T most = -std::numeric_limits<T>::infinity();
    for (int i = team.part; inside && i < classes; i += team.parts) most = Larger()(most, row(i));
    largest = JoinTeam(team, most, values, Larger());
    double total = 0;
    for (int i = team.part; inside && i < classes; i += team.parts)
      total += static_cast<double>(functions::ExpOf(row(i) - largest));
    sum = SumOfTeam(team, total, sums);
  }
};

// The row of this thread's team.
__device__ int RowOf(const Team& team) { return static_cast<int>(blockIdx.x) * kRows + team.member; }

template <typename T, bool kLog>
__device__ void Softmax(const SoftmaxArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const Team team = TeamOf(kParts, false);
  const int row = RowOf(team);
  const int64_t begin = static_cast<int64_t>(row) * a.classes;
  const T* x = static_cast<const T*>(a.x.of(lane)) + begin;
  T* y = static_cast<T*>(a.y.of(lane)) + begin;
  const bool inside = row < a.rows;
  const RowOfLogits<T> of(team, inside, a.classes, [x](int i) { return x[i]; });
  if (!inside) return;
  const T log_sum = static_cast<T>(log(of.sum)), factor = static_cast<T>(1.0 / of.sum);
  for (int i = team.part; i < a.classes; i += team.parts)
    y[i] = kLog ? (x[i] - of.largest) - log_sum : functions::ExpOf(x[i] - of.largest) * factor;
}

// loss = -Σ labels · log softmax, backprop = softmax - labels. A label of 0 adds nothing, whatever its feature.
template <typename T>
__device__ void CrossEntropy(const CrossEntropyArguments& a) {
  __shared__ double terms[kBlockThreads];
  const int lane = a.lanes.Number(blockIdx.z);
  const Team team = TeamOf(kParts, false);
  const int row = RowOf(team);
  const bool inside = row < a.rows;
  const T* features = static_cast<const T*>(a.features.of(lane)) + row * a.feature_row;
  const T* labels = static_cast<const T*>(a.labels.of(lane)) + row * a.label_row;
  T* backprop = static_cast<T*>(a.backprop.of(lane)) + static_cast<int64_t>(row) * a.classes;
  const RowOfLogits<T> of(team, inside, a.classes, [&](int i) { return features[i * a.feature_column]; });
  const T log_sum = static_cast<T>(log(of.sum)), factor = static_cast<T>(1.0 / of.sum);
  double total = 0;
  for (int i = team.part; inside && i < a.classes; i += team.parts) {
    // Read before the gradient may overwrite them.
    const T label = labels[i * a.label_column], shifted = features[i * a.feature_column] - of.largest;
    if (label != T(0)) total += static_cast<double>(label * (log_sum - shifted));
    backprop[i] = functions::ExpOf(shifted) * factor - label;
  }
  total = SumOfTeam(team, total, terms);
  if (inside && team.part == 0) static_cast<T*>(a.loss.of(lane))[row] = static_cast<T>(total);
}

template <typename T, typename Label>
__device__ void SparseCrossEntropy(const CrossEntropyArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const Team team = TeamOf(kParts, false);
  const int row = RowOf(team);
  const bool inside = row < a.rows;
  const int64_t begin = static_cast<int64_t>(row) * a.classes;
  const T* features = static_cast<const T*>(a.features.of(lane)) + begin;
  T* backprop = static_cast<T*>(a.backprop.of(lane)) + begin;
  const int64_t label = inside ? static_cast<int64_t>(static_cast<const Label*>(a.labels.of(lane))[row]) : 0;
  const bool known = label >= 0 && label < a.classes;
  const T nothing = std::numeric_limits<T>::quiet_NaN();
  const T of_label = inside && known ? features[label] : nothing;
  const RowOfLogits<T> of(team, inside, a.classes, [features](int i) { return features[i]; });
  if (!inside) return;
  const T factor = static_cast<T>(1.0 / of.sum);
  for (int i = team.part; i < a.classes; i += team.parts) {
    const T probability = functions::ExpOf(features[i] - of.largest) * factor;
    backprop[i] = !known ? nothing : i == label ? probability - T(1) : probability;
  }
  if (team.part == 0)
    static_cast<T*>(a.loss.of(lane))[row] = static_cast<T>(log(of.sum) - static_cast<double>(of_label - of.largest));
}

template <typename Arguments>
Grid GridOverRows(const Arguments& a) {
  return {static_cast<uint32_t>((a.rows + kRows - 1) / kRows), 1, static_cast<uint32_t>(a.lanes.count), kBlockThreads};
}

#define RIVULET_GPU_SOFTMAX_KERNELS(T)                                                                               \
  __global__ void Softmax_##T(SoftmaxArguments a) { Softmax<T, false>(a); }                                          \
  RIVULET_GPU_KERNEL("softmax_" #T, SoftmaxArguments, Softmax_##T, GridOverRows(a));                                 \
  __global__ void LogSoftmax_##T(SoftmaxArguments a) { Softmax<T, true>(a); }                                        \
  RIVULET_GPU_KERNEL("log_softmax_" #T, SoftmaxArguments, LogSoftmax_##T, GridOverRows(a));                          \
  __global__ void CrossEntropy_##T(CrossEntropyArguments a) { CrossEntropy<T>(a); }                                  \
  RIVULET_GPU_KERNEL("cross_entropy_" #T, CrossEntropyArguments, CrossEntropy_##T, GridOverRows(a));                 \
  __global__ void SparseCrossEntropy_##T##_int32_t(CrossEntropyArguments a) { SparseCrossEntropy<T, int32_t>(a); }   \
  RIVULET_GPU_KERNEL("sparse_cross_entropy_" #T "_int32_t", CrossEntropyArguments, SparseCrossEntropy_##T##_int32_t, \
                     GridOverRows(a));                                                                               \
  __global__ void SparseCrossEntropy_##T##_int64_t(CrossEntropyArguments a) { SparseCrossEntropy<T, int64_t>(a); }   \
  RIVULET_GPU_KERNEL("sparse_cross_entropy_" #T "_int64_t", CrossEntropyArguments, SparseCrossEntropy_##T##_int64_t, \
                     GridOverRows(a));
RIVULET_GPU_SOFTMAX_KERNELS(float)
RIVULET_GPU_SOFTMAX_KERNELS(double)

}  // namespace
}  // namespace rivulet::gpu
