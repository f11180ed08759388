// Images abreast: vectors of one element of as many images as a vector has lanes, and the way there and back. Included
// per target (no include guard of the usual kind).
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/kernels/cpu/tail-inl.h"
#include "engine/kernels/cpu/unroll.h"
#include "hwy/highway.h"

#ifndef RIVULET_ABREAST_ONCE
#define RIVULET_ABREAST_ONCE
namespace rivulet {
constexpr int64_t kMostAbreast = 16;  // images, of the widest target
}  // namespace rivulet
#endif

#if defined(RIVULET_ABREAST_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RIVULET_ABREAST_INL_H_
#undef RIVULET_ABREAST_INL_H_
#else
#define RIVULET_ABREAST_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using AbreastD = hn::CappedTag<float, kMostAbreast>;
using AbreastV = hn::Vec<AbreastD>;
constexpr int64_t kAbreast = hn::MaxLanes(AbreastD());  // images

// A square of vectors on its other side: each step takes a bit of the row's number into that of the lane, and one of
// the lane's into that of the row.
HWY_INLINE void TurnSquare(AbreastV (&square)[kAbreast]) {
#if HWY_TARGET == HWY_SCALAR
  (void)square;
#else
  const AbreastD d;
  RIVULET_UNROLL
  for (int64_t step = 1; step < kAbreast; step *= 2) {
    AbreastV turned[kAbreast];
    RIVULET_UNROLL
    for (int64_t i = 0; i < kAbreast / 2; ++i) {
      turned[i] = hn::ConcatEven(d, square[2 * i + 1], square[2 * i]);
      turned[i + kAbreast / 2] = hn::ConcatOdd(d, square[2 * i + 1], square[2 * i]);
    }
    RIVULET_UNROLL
    for (int64_t i = 0; i < kAbreast; ++i) square[i] = turned[i];
  }
#endif
}

// `elements` that lie side by side in each of `images` images, one image `stride` elements from the next, as a vector
// each; images that are not there are zeros.
HWY_INLINE void TurnAbreast(const float* HWY_RESTRICT from, int64_t stride, int64_t images, int64_t elements,
                            float* HWY_RESTRICT to) {
  const AbreastD d;
  for (int64_t at = 0; at < elements; at += kAbreast) {
    const int64_t count = std::min(kAbreast, elements - at);
    AbreastV square[kAbreast];
    if (count == kAbreast && images == kAbreast) {
      RIVULET_UNROLL
      for (int64_t i = 0; i < kAbreast; ++i) square[i] = hn::LoadU(d, from + i * stride + at);
    } else {
      RIVULET_UNROLL
      for (int64_t i = 0; i < kAbreast; ++i)
        square[i] = i < images ? LoadTail(d, from + i * stride + at, static_cast<size_t>(count)) : hn::Zero(d);
    }
    TurnSquare(square);
    RIVULET_UNROLL
    for (int64_t i = 0; i < kAbreast; ++i)
      if (i < count) hn::Store(square[i], d, to + (at + i) * kAbreast);
  }
}

// And back.
HWY_INLINE void TurnBack(const float* HWY_RESTRICT from, int64_t elements, int64_t images, float* HWY_RESTRICT to,
                         int64_t stride) {
  const AbreastD d;
  for (int64_t at = 0; at < elements; at += kAbreast) {
    const int64_t count = std::min(kAbreast, elements - at);
    AbreastV square[kAbreast];
    RIVULET_UNROLL
    for (int64_t i = 0; i < kAbreast; ++i)
      square[i] = i < count ? hn::Load(d, from + (at + i) * kAbreast) : hn::Zero(d);
    TurnSquare(square);
    if (count == kAbreast && images == kAbreast) {
      RIVULET_UNROLL
      for (int64_t i = 0; i < kAbreast; ++i) hn::StoreU(square[i], d, to + i * stride + at);
    } else {
      RIVULET_UNROLL
      for (int64_t i = 0; i < kAbreast; ++i)
        if (i < images) StoreTail(square[i], d, to + i * stride + at, static_cast<size_t>(count));
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#endif
