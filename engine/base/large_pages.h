// An allocator for arrays that are swept from end to end: from 4 MB on they begin at a large page and ask the system
// for large pages, since a sweep over small ones waits for an address translation every 4 kB.
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
