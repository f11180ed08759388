// Allocator for large arrays of which a process makes one after another of the same size, as a round's sums. The last
// array that was freed is kept for the next one, so the system does not clear its pages again.
#pragma once

#include <cstddef>

#include "engine/base/large_pages.h"

namespace rivulet {

// Memory of `bytes`, as LargePages gives it: what FreeRecycled kept, if that has exactly this size. Thread-safe.
void* AllocateRecycled(size_t bytes);
// Keeps the memory in place of what was kept before; below LargePages::kFrom it keeps nothing.
void FreeRecycled(void* data, size_t bytes);

template <class T>
struct RecycledPages {
  using value_type = T;
  RecycledPages() = default;
  template <class U>
  RecycledPages(const RecycledPages<U>&) {}

  T* allocate(size_t count) { return static_cast<T*>(AllocateRecycled(count * sizeof(T))); }
  void deallocate(T* data, size_t count) { FreeRecycled(data, count * sizeof(T)); }
  template <class U>
  bool operator==(const RecycledPages<U>&) const {
    return true;
  }
};

}  // namespace rivulet
