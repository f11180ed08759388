// Replaces operator new of this test program. It is a separate file: a compiler that sees both new and free would
// report a mismatch.
#include "tests/engine/program/allocations.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <string_view>

namespace {
thread_local bool counting = false;
thread_local int allocations = 0;
thread_local std::array<void*, 16384> callers;

void Count(void* caller) {
  if (!counting) return;
  if (static_cast<size_t>(allocations) < callers.size()) callers[static_cast<size_t>(allocations)] = caller;
  ++allocations;
}
}  // namespace

void* operator new(size_t bytes) {
  Count(__builtin_return_address(0));
  if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  throw std::bad_alloc();
}
void* operator new[](size_t bytes) {
  Count(__builtin_return_address(0));
  if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  throw std::bad_alloc();
}
// std::stable_sort asks in this way.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  Count(__builtin_return_address(0));
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  Count(__builtin_return_address(0));
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  Count(__builtin_return_address(0));
  const size_t a = static_cast<size_t>(alignment);
  if (void* p = std::aligned_alloc(a, (bytes + a) / a * a)) return p;
  throw std::bad_alloc();
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  Count(__builtin_return_address(0));
  const size_t a = static_cast<size_t>(alignment);
  if (void* p = std::aligned_alloc(a, (bytes + a) / a * a)) return p;
  throw std::bad_alloc();
}
// So does memory that may be refused (AlignedBuffer::Create).
void* operator new(size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  Count(__builtin_return_address(0));
  const size_t a = static_cast<size_t>(alignment);
  return std::aligned_alloc(a, (bytes + a) / a * a);
}
void* operator new[](size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  Count(__builtin_return_address(0));
  const size_t a = static_cast<size_t>(alignment);
  return std::aligned_alloc(a, (bytes + a) / a * a);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t, std::align_val_t) noexcept { std::free(p); }

namespace rivulet::testing {

AllocationCount CountAllocationsApart(const std::function<void()>& body) {
  allocations = 0;
  counting = true;
  body();
  counting = false;
  AllocationCount count;
  const int known = std::min(allocations, static_cast<int>(callers.size()));
  Dl_info program{}, caller{};
  dladdr(reinterpret_cast<void*>(&CountAllocationsApart), &program);
  for (int i = 0; i < known; ++i) {
    const std::string_view library =
        dladdr(callers[static_cast<size_t>(i)], &caller) != 0 && caller.dli_fbase != program.dli_fbase
            ? caller.dli_fname
            : "";
    if (library.empty() || library.find("libstdc++") != std::string_view::npos) {
      ++count.ours;
    } else {
      if (++count.libraries == 1) count.of_library = library;
    }
  }
  count.ours += allocations - known;
  return count;
}

int CountAllocations(const std::function<void()>& body) {
  const AllocationCount count = CountAllocationsApart(body);
  return count.ours + count.libraries;
}

}  // namespace rivulet::testing
