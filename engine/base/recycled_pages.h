// Memory for large arrays of which a process makes one after another of the same size, as a round's sums. The last
// array that was freed is kept for the next one, so the system does not clear its pages again.
#pragma once

#include <cstddef>

#include "engine/base/large_pages.h"

namespace rivulet {

// Memory of `bytes`, as LargePages gives it: what FreeRecycled kept, if that has exactly this size. Thread-safe.
void* AllocateRecycled(size_t bytes);
// Keeps the memory in place of what was kept before; below LargePages::kFrom it keeps nothing.
void FreeRecycled(void* data, size_t bytes);

}  // namespace rivulet
