#include "rpc/transfer_heap.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <vector>

#include "tests/testing/sanitized.h"

namespace rivulet {
namespace {

int64_t ResidentHeapBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0, resident = 0, shared = 0;
  file >> size >> resident >> shared;
  return (resident - shared) * sysconf(_SC_PAGESIZE);
}

// Pieces of messages, with something between them that stays, as connections do.
TEST(HeapTrimTest, FreePagesBetweenWhatLives_GoBackOnceSoManyBytesHaveMoved) {
  if (testing::kSanitized) GTEST_SKIP() << "a sanitizer has a heap of its own";
  constexpr int64_t kPieces = 4'000, kPieceBytes = 16'000;
  std::vector<std::unique_ptr<char[]>> pieces, stay;
  for (int64_t i = 0; i < kPieces; ++i) {
    pieces.push_back(std::make_unique<char[]>(kPieceBytes));  // filled with zeros, and so resident
    stay.push_back(std::make_unique<char[]>(2'000));          // too long for what a thread keeps for itself
  }
  const int64_t full = ResidentHeapBytes();
  pieces.clear();
  HeapTrim trim;
  trim.Moved(HeapTrim::kTrimEveryBytes - 1);
  EXPECT_GT(ResidentHeapBytes(), full - kPieces * kPieceBytes / 4);
  trim.Moved(1);
  EXPECT_LT(ResidentHeapBytes(), full - kPieces * kPieceBytes / 2);
}

}  // namespace
}  // namespace rivulet
