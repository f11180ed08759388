// Allocator for large arrays that are read or written from end to end. From 4 MB on, an array begins at a large page
// and the allocator requests large pages from the system. A sweep over small pages waits for an address translation
// every 4 kB.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>

namespace rivulet {

template <class T>
struct LargePages {
  using value_type = T;
  LargePages() = default;
  template <class U>
  LargePages(const LargePages<U>&) {}

  static constexpr size_t kPage = size_t{2} << 20, kFrom = size_t{4} << 20;

  T* allocate(size_t count) {
    const size_t bytes = count * sizeof(T);
    if (bytes < kFrom) return static_cast<T*>(::operator new (bytes, std::align_val_t{64}));
    void* const data = ::operator new (bytes, std::align_val_t{kPage});
    madvise(data, bytes, MADV_HUGEPAGE);  // a hint: without it the array is the same, only slower
    return static_cast<T*>(data);
  }
  void deallocate(T* data, size_t count) {
    ::operator delete (data, std::align_val_t{count * sizeof(T) < kFrom ? 64 : kPage});
  }
  template <class U>
  bool operator==(const LargePages<U>&) const {
    return true;
  }
};

}  // namespace rivulet
