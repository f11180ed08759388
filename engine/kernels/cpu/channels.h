// Statistics of channels and the walks that normalise by them, for tensors seen as [rows, channels, inner]: inner is 1
// where channels come last. What batch, group and instance normalisation have in common.
//
// The order of every sum is decided by the sizes alone. Statistics are taken block by block, each block twice while it
// lies in the cache (its mean, then the squares of the distances from that), and blocks are joined in double: Chan,
// Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances" (1979). So a mean that
// is large beside the deviation costs no digits, and memory is read once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rivulet {

struct ChannelLayout {
  int64_t rows = 1, channels = 1, inner = 1;
  int64_t elements() const { return rows * channels * inner; }
};

// All of these are for T = float and double.

// Per channel the mean and the sum of squared distances from it; zeros without rows. `scratch`: 2 · channels elements.
template <typename T>
void ChannelMoments(const T* x, const ChannelLayout& layout, double* mean, double* squares, T* scratch);

// Per channel the sums of dy and of dy · (x - mean). `scratch` as above.
template <typename T>
void ChannelGradientSums(const T* dy, const T* x, const T* mean, const ChannelLayout& layout, double* sum_dy,
                         double* sum_dy_x, T* scratch);

// y = (x - mean) · factor + offset, these three per channel. y may be x.
template <typename T>
void ChannelNormalize(const T* x, const T* mean, const T* factor, const T* offset, const ChannelLayout& layout, T* y);

// dx = (dy · scale - q - (x - mean) · r) · factor, these five per channel. dx may be dy or x.
template <typename T>
struct GradientFactors {
  const T *mean, *scale, *q, *r, *factor;
};
template <typename T>
void ChannelNormalizeGradient(const T* dy, const T* x, const GradientFactors<T>& factors, const ChannelLayout& layout,
                              T* dx);

}  // namespace rivulet
