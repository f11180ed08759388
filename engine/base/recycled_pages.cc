#include "engine/base/recycled_pages.h"

#include <utility>

#include "engine/base/mutex.h"

namespace rivulet {
namespace {

using Bytes = LargePages<std::byte>;

// One array at most: a second one would be memory that nobody uses. Never destroyed, as arrays may be freed late.
struct KeptArray {
  Mutex mutex;
  std::byte* data GUARDED_BY(mutex) = nullptr;
  size_t bytes GUARDED_BY(mutex) = 0;
};

KeptArray& Kept() {
  static auto* const kept = new KeptArray;
  return *kept;
}

}  // namespace

void* AllocateRecycled(size_t bytes) {
  if (bytes >= Bytes::kFrom) {
    KeptArray& kept = Kept();
    MutexLock lock(kept.mutex);
    if (kept.bytes == bytes) {
      kept.bytes = 0;
      return std::exchange(kept.data, nullptr);
    }
  }
  return Bytes().allocate(bytes);
}

void FreeRecycled(void* data, size_t bytes) {
  auto* freed = static_cast<std::byte*>(data);
  if (bytes >= Bytes::kFrom) {
    KeptArray& kept = Kept();
    MutexLock lock(kept.mutex);
    std::swap(kept.data, freed);
    std::swap(kept.bytes, bytes);
  }
  if (freed != nullptr) Bytes().deallocate(freed, bytes);
}

}  // namespace rivulet
