// Heap settings of a process that serves transfers. A message of a megabyte arrives in pieces of some KiB, through any
// of gRPC's threads, and is freed a moment later. Long-lived allocations of connections are made in between.
#pragma once

#include <atomic>
#include <cstdint>

namespace rivulet {

// Affects the whole process, so a program calls it before it has threads. It sets two arenas, because with one per
// thread each thread's freed memory would stay. Some free memory is kept at their ends: otherwise the system takes back
// each message's pages and clears them for the next, which took a sixth of an upload's time.
void SetUpTransferHeap();

// Returns free pages between live allocations to the system after every kTrimEveryBytes moved: with a thousand
// connections they are a quarter of the heap. It takes milliseconds, during which nothing can be allocated.
// Thread-safe.
class HeapTrim {
 public:
  static constexpr int64_t kTrimEveryBytes = int64_t{128} << 20;

  void Moved(int64_t bytes);

 private:
  std::atomic<int64_t> moved_ = 0;
};

}  // namespace rivulet
