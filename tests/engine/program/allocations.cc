// Replaces operator new of this test program. A file of its own: where the compiler sees both sides it takes new and
// free for a mismatch.
#include "tests/engine/program/allocations.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {
thread_local bool counting = false;
thread_local int allocations = 0;
}  // namespace

void* operator new(size_t bytes) {
  if (counting) ++allocations;
  if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  throw std::bad_alloc();
}
void* operator new[](size_t bytes) { return operator new(bytes); }
// std::stable_sort asks in this way.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  if (counting) ++allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new[](size_t bytes, const std::nothrow_t& nothrow) noexcept { return operator new(bytes, nothrow); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  if (counting) ++allocations;
  const size_t a = static_cast<size_t>(alignment);
  if (void* p = std::aligned_alloc(a, (bytes + a) / a * a)) return p;
  throw std::bad_alloc();
}
void* operator new[](size_t bytes, std::align_val_t alignment) { return operator new(bytes, alignment); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t, std::align_val_t) noexcept { std::free(p); }

namespace rivulet::testing {

int CountAllocations(const std::function<void()>& body) {
  allocations = 0;
  counting = true;
  body();
  counting = false;
  return allocations;
}

}  // namespace rivulet::testing
