#include "rpc/transfer_heap.h"

#include <malloc.h>

namespace rivulet {

void SetUpTransferHeap() {
  mallopt(M_ARENA_MAX, 2);
  mallopt(M_TRIM_THRESHOLD, 4 << 20);
}

void HeapTrim::Moved(int64_t bytes) {
  const int64_t before = moved_.fetch_add(bytes);
  if (before / kTrimEveryBytes != (before + bytes) / kTrimEveryBytes) malloc_trim(0);
}

}  // namespace rivulet
