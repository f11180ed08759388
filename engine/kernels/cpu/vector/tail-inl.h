// Loads and stores of the last few lanes of a row that touch no byte beyond it. Included per target (no include guard
// of the usual kind).
#include <cstddef>
#include <cstring>

#include "hwy/highway.h"

#if defined(RIVULET_TAIL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RIVULET_TAIL_INL_H_
#undef RIVULET_TAIL_INL_H_
#else
#define RIVULET_TAIL_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {

// AVX2 and AVX-512 (the lower numbers) have true masked loads and stores.
#define RIVULET_MASKED_MEMORY (HWY_TARGET <= HWY_AVX2)

// Loads the first `count` (at most Lanes(d)) elements at `from`, followed by zeros.
template <class D, typename T = hwy::HWY_NAMESPACE::TFromD<D>>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> LoadTail(D d, const T* HWY_RESTRICT from, size_t count) {
  namespace hn = hwy::HWY_NAMESPACE;
#if RIVULET_MASKED_MEMORY
  return hn::MaskedLoad(hn::FirstN(d, count), d, from);
#else
  HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)] = {};
  std::memcpy(lanes, from, count * sizeof(T));
  return hn::Load(d, lanes);
#endif
}

template <class D, class V, typename T = hwy::HWY_NAMESPACE::TFromD<D>>
HWY_INLINE void StoreTail(V v, D d, T* HWY_RESTRICT to, size_t count) {
  namespace hn = hwy::HWY_NAMESPACE;
#if RIVULET_MASKED_MEMORY
  hn::BlendedStore(v, hn::FirstN(d, count), d, to);
#else
  HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(v, d, lanes);
  std::memcpy(to, lanes, count * sizeof(T));
#endif
}

// Calls f(load, store) over `count` elements: for whole vectors, then for the tail. `load(p)` gives the vector at p +
// offset, and `store(p, v)` writes there.
template <class D, class F>
HWY_INLINE void ForEachVector(D d, size_t count, F f) {
  namespace hn = hwy::HWY_NAMESPACE;
  using T = hn::TFromD<D>;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    f([=](const T* p) { return hn::LoadU(d, p + i); }, [=](T* p, hn::Vec<D> v) { hn::StoreU(v, d, p + i); });
  }
  if (i < count) {
    const size_t rest = count - i;
    f([=](const T* p) { return LoadTail(d, p + i, rest); }, [=](T* p, hn::Vec<D> v) { StoreTail(v, d, p + i, rest); });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#endif
