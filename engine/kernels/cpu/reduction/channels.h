// Statistics of channels and the normalisation by them, for tensors viewed as [rows, channels, inner]; inner is 1 if
// channels are last. Batch, group and instance normalisation share it.
//
// The order of every sum depends on the sizes alone. Statistics are computed block by block while a block is in the
// cache: its mean, then the squares of the distances from it. Blocks are joined in double: Chan, Golub and LeVeque,
// "Updating formulae and a pairwise algorithm for computing sample variances" (1979). So a mean that is large compared
// with the deviation costs no digits, and memory is read once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rivulet {

struct ChannelLayout {
  int64_t rows = 1, channels = 1, inner = 1;
  int64_t elements() const { return rows * channels * inner; }
};

// A rectifier after a normalisation, Relu or Relu6: values below 0 become 0, and values above `top` become `top`. For
// Relu `top` is NaN, which no value exceeds.
template <typename T>
struct Rectifier {
  T top = 0;
};

// The functions below exist for T = float and double.

// Per channel the mean and the sum of squared distances from it; zeros without rows. `scratch`: 2 · channels elements.
template <typename T>
void ChannelMoments(const T* x, const ChannelLayout& layout, double* mean, double* squares, T* scratch);

// The elements that `rectifier` passed (all if null) are found from ChannelNormalize's y, recomputed from x, `factor`
// and `offset`: dy counts where 0 < y < top, and as 0 elsewhere.
template <typename T>
struct Rectified {
  const T *factor = nullptr, *offset = nullptr;
  const Rectifier<T>* rectifier = nullptr;
};

// Per channel the sums of dy and of dy · (x - mean). `scratch` as above.
template <typename T>
void ChannelGradientSums(const T* dy, const T* x, const T* mean, const Rectified<T>& rectified,
                         const ChannelLayout& layout, double* sum_dy, double* sum_dy_x, T* scratch);

// y = (x - mean) · factor + offset, these three per channel, and rectified if `rectifier` is not null. y may be x.
template <typename T>
void ChannelNormalize(const T* x, const T* mean, const T* factor, const T* offset, const Rectifier<T>* rectifier,
                      const ChannelLayout& layout, T* y);

// dx = (dy · scale - q - (x - mean) · r) · factor, these five per channel. dx may be dy or x.
template <typename T>
struct GradientFactors {
  const T *mean, *scale, *q, *r, *factor;
};
template <typename T>
void ChannelNormalizeGradient(const T* dy, const T* x, const GradientFactors<T>& factors, const Rectified<T>& rectified,
                              const ChannelLayout& layout, T* dx);

}  // namespace rivulet
