// Heap settings of a process that serves transfers. A message of a megabyte arrives in pieces of some KiB, through any
// of gRPC's threads, and is freed a moment later. Long-lived allocations of connections are made in between.
#pragma once

#include <atomic>
#include <cstdint>

namespace rivulet {

// For the whole process, so a program says it, before it has threads. Two arenas, since in one per thread what each has
// freed would stay. A little that is free at their ends is kept: otherwise each message that goes gives its pages back
// to the system, and the next one has them cleared again, which took a sixth of an upload's time.
void SetUpTransferHeap();

// Gives free pages that lie between what lives on back to the system whenever kTrimEveryBytes have been moved: with a
// thousand connections those are a quarter of the heap. It takes milliseconds, in which nothing is allocated.
// Thread-safe.
class HeapTrim {
 public:
  static constexpr int64_t kTrimEveryBytes = int64_t{128} << 20;

  void Moved(int64_t bytes);

 private:
  std::atomic<int64_t> moved_ = 0;
};

}  // namespace rivulet
