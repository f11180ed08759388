// Interleaving of a batch's images: a vector has one element of as many images as it has lanes. Included once per
// target (without a usual include guard).
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/kernels/cpu/convolution/batch_interleaved_conv.h"
#include "engine/kernels/cpu/vector/tail-inl.h"
#include "engine/kernels/cpu/vector/unroll.h"
#include "hwy/highway.h"

#if defined(RIVULET_BATCH_INTERLEAVED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RIVULET_BATCH_INTERLEAVED_INL_H_
#undef RIVULET_BATCH_INTERLEAVED_INL_H_
#else
#define RIVULET_BATCH_INTERLEAVED_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using InterleavedD = hn::CappedTag<float, kMostInterleaved>;
using InterleavedV = hn::Vec<InterleavedD>;
constexpr int64_t kInterleaved = hn::MaxLanes(InterleavedD());  // images

// Transposes a square of vectors: each step exchanges one
// bit of the row number with one bit of the lane number.
HWY_INLINE void TransposeSquare(InterleavedV (&square)[kInterleaved]) {
#if HWY_TARGET == HWY_SCALAR
  (void)square;
#else
  const InterleavedD d;
  RIVULET_UNROLL
  for (int64_t step = 1; step < kInterleaved; step *= 2) {
    InterleavedV interleaved[kInterleaved];
    RIVULET_UNROLL
    for (int64_t i = 0; i < kInterleaved / 2; ++i) {
      interleaved[i] = hn::ConcatEven(d, square[2 * i + 1], square[2 * i]);
      interleaved[i + kInterleaved / 2] = hn::ConcatOdd(d, square[2 * i + 1], square[2 * i]);
    }
    RIVULET_UNROLL
    for (int64_t i = 0; i < kInterleaved; ++i) square[i] = interleaved[i];
  }
#endif
}

// Interleaves `elements` adjacent elements of `images` images, `stride` elements apart, into one vector per element;
// missing images are zeros.
HWY_INLINE void Interleave(const float* HWY_RESTRICT from, int64_t stride, int64_t images, int64_t elements,
                           float* HWY_RESTRICT to) {
  const InterleavedD d;
  for (int64_t at = 0; at < elements; at += kInterleaved) {
    const int64_t count = std::min(kInterleaved, elements - at);
    InterleavedV square[kInterleaved];
    if (count == kInterleaved && images == kInterleaved) {
      RIVULET_UNROLL
      for (int64_t i = 0; i < kInterleaved; ++i) square[i] = hn::LoadU(d, from + i * stride + at);
    } else {
      RIVULET_UNROLL
      for (int64_t i = 0; i < kInterleaved; ++i)
        square[i] = i < images ? LoadTail(d, from + i * stride + at, static_cast<size_t>(count)) : hn::Zero(d);
    }
    TransposeSquare(square);
    RIVULET_UNROLL
    for (int64_t i = 0; i < kInterleaved; ++i)
      if (i < count) hn::Store(square[i], d, to + (at + i) * kInterleaved);
  }
}

// The inverse.
HWY_INLINE void Deinterleave(const float* HWY_RESTRICT from, int64_t elements, int64_t images, float* HWY_RESTRICT to,
                             int64_t stride) {
  const InterleavedD d;
  for (int64_t at = 0; at < elements; at += kInterleaved) {
    const int64_t count = std::min(kInterleaved, elements - at);
    InterleavedV square[kInterleaved];
    RIVULET_UNROLL
    for (int64_t i = 0; i < kInterleaved; ++i)
      square[i] = i < count ? hn::Load(d, from + (at + i) * kInterleaved) : hn::Zero(d);
    TransposeSquare(square);
    if (count == kInterleaved && images == kInterleaved) {
      RIVULET_UNROLL
      for (int64_t i = 0; i < kInterleaved; ++i) hn::StoreU(square[i], d, to + i * stride + at);
    } else {
      RIVULET_UNROLL
      for (int64_t i = 0; i < kInterleaved; ++i)
        if (i < images) StoreTail(square[i], d, to + i * stride + at, static_cast<size_t>(count));
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#endif
