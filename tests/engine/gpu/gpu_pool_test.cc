// Allocation of a device's memory.
#include "engine/gpu/gpu_pool.h"

#include <cstdlib>
#include <map>
#include <random>

#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::StatusIs;

constexpr size_t kMiB = size_t{1} << 20;

// A driver that counts.
struct Driver {
  size_t has = 64 * kMiB;
  size_t largest_piece = SIZE_MAX;
  std::map<std::byte*, size_t> taken;
  int calls = 0;
  std::unique_ptr<GpuPool> Pool(size_t limit, bool grow = true) {
    GpuPool::Source source;
    source.take = [this](size_t bytes) -> StatusOr<std::byte*> {
      ++calls;
      size_t held = 0;
      for (const auto& [at, size] : taken) held += size;
      if (bytes > largest_piece || bytes > has - held) return nullptr;
      auto* memory = static_cast<std::byte*>(std::aligned_alloc(256, bytes));
      taken.emplace(memory, bytes);
      return memory;
    };
    source.give_back = [this](std::byte* memory) {
      taken.erase(memory);
      std::free(memory);
    };
    source.host_memory = true;
    return std::make_unique<GpuPool>(std::move(source), limit, grow);
  }
};

TEST(GpuPoolTest, Pieces_AreApart_AndAligned) {
  Driver driver;
  const auto pool = driver.Pool(64 * kMiB);
  std::mt19937 random(7);
  std::map<std::byte*, size_t> pieces;
  for (int turn = 0; turn < 2000; ++turn) {
    if (pieces.size() > 50) {
      auto piece = pieces.begin();
      std::advance(piece, random() % pieces.size());
      pool->Release(piece->first);
      pieces.erase(piece);
    }
    const size_t bytes = random() % 5000;
    ASSERT_OK_AND_ASSIGN(std::byte * piece, pool->Allocate(bytes, "piece"));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(piece) % 256, 0u);
    const auto behind = pieces.lower_bound(piece);
    if (behind != pieces.end()) {
      ASSERT_LE(piece + bytes, behind->first);
    }
    if (behind != pieces.begin()) {
      ASSERT_LE(std::prev(behind)->first + std::prev(behind)->second, piece);
    }
    std::fill(piece, piece + bytes, std::byte{1});
    pieces.emplace(piece, bytes);
  }
  for (const auto& [piece, bytes] : pieces) pool->Release(piece);
  EXPECT_EQ(pool->in_use(), 0u);
  // All are one piece again.
  ASSERT_OK_AND_ASSIGN(std::byte * whole, pool->Allocate(pool->held() - 256, "whole"));
  EXPECT_EQ(driver.calls, 1);
  pool->Release(whole);
}

TEST(GpuPoolTest, Growth_Doubles_AndASecondRunAsksForNothing) {
  Driver driver;
  const auto pool = driver.Pool(64 * kMiB);
  for (int run = 0; run < 2; ++run) {
    std::vector<std::byte*> pieces;
    for (int i = 0; i < 14; ++i) {
      ASSERT_OK_AND_ASSIGN(std::byte * piece, pool->Allocate(kMiB - 256, "weights"));
      pieces.push_back(piece);
    }
    EXPECT_EQ(driver.calls, 4) << run;  // 2, 2, 4, 8 MiB
    EXPECT_EQ(pool->held(), 16 * kMiB);
    for (std::byte* piece : pieces) pool->Release(piece);
  }
}

TEST(GpuPoolTest, BestFit_LeavesTheLargePieceWhole) {
  Driver driver;
  const auto pool = driver.Pool(2 * kMiB);
  std::vector<std::byte*> pieces;
  for (const size_t bytes : {100'000, 1000, 20'000, 1000, 50'000, 1000}) {
    ASSERT_OK_AND_ASSIGN(std::byte * piece, pool->Allocate(bytes, "piece"));
    pieces.push_back(piece);
  }
  for (const int gone : {0, 2, 4}) pool->Release(pieces[static_cast<size_t>(gone)]);
  ASSERT_OK_AND_ASSIGN(std::byte * fits, pool->Allocate(19'000, "piece"));
  EXPECT_EQ(fits, pieces[2]);
  pieces[2] = fits;
  for (const int held : {1, 2, 3, 5}) pool->Release(pieces[static_cast<size_t>(held)]);
}

TEST(GpuPoolTest, WithoutGrowth_TheFirstTakesAll) {
  Driver driver;
  const auto pool = driver.Pool(32 * kMiB, false);
  ASSERT_OK_AND_ASSIGN(std::byte * piece, pool->Allocate(1, "piece"));
  EXPECT_EQ(pool->held(), 32 * kMiB);
  pool->Release(piece);
}

TEST(GpuPoolTest, FreeRegionsGoBack_WhenTheLimitWouldBePassed) {
  Driver driver;
  const auto pool = driver.Pool(8 * kMiB);
  ASSERT_OK_AND_ASSIGN(std::byte * small, pool->Allocate(kMiB, "small"));
  pool->Release(small);
  ASSERT_OK_AND_ASSIGN(std::byte * large, pool->Allocate(7 * kMiB, "large"));
  EXPECT_LE(pool->held(), 8 * kMiB);
  pool->Release(large);
}

TEST(GpuPoolTest, DriverWithLessThanAStep_GivesWhatIsNeeded) {
  Driver driver;
  driver.has = kMiB;
  const auto pool = driver.Pool(64 * kMiB);
  ASSERT_OK_AND_ASSIGN(std::byte * piece, pool->Allocate(1000, "piece"));
  EXPECT_EQ(pool->held(), 1024u);
  pool->Release(piece);
}

TEST(GpuPoolTest, Exhausted_SaysWhatWasAsked_WhatThereIs_AndWhoHoldsTheMost) {
  Driver driver;
  const auto pool = driver.Pool(8 * kMiB);
  std::vector<std::byte*> pieces;
  const auto take = [&](size_t bytes, const char* what) {
    ASSERT_OK_AND_ASSIGN(std::byte * piece, pool->Allocate(bytes, what));
    pieces.push_back(piece);
  };
  take(1'000'000, "weights of 4 lanes");
  take(1'500'000, "arena of a step");
  take(2'000'000, "weights of 4 lanes");
  EXPECT_THAT(
      pool->Allocate(6'000'000, "examples"),
      StatusIs(absl::StatusCode::kResourceExhausted,
               AllOf(HasSubstr("no 6000.0 kB of device memory for examples"), HasSubstr("8388.6 kB are in use"),
                     HasSubstr("the largest user is weights of 4 lanes (3000.3 kB in 2 pieces), arena of a step "
                               "(1500.2 kB); take fewer lanes or smaller batches"))));
  for (std::byte* piece : pieces) pool->Release(piece);
  EXPECT_THAT(pool->Allocate(9 * kMiB, "too much"), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(pool->Allocate(SIZE_MAX, "far too much"), StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(GpuPoolTest, ReleasedMemory_OfTheHost_IsNaNs) {
  Driver driver;
  const auto pool = driver.Pool(8 * kMiB);
  ASSERT_OK_AND_ASSIGN(std::byte * piece, pool->Allocate(1000, "piece"));
  std::fill(piece, piece + 1000, std::byte{1});
  pool->Release(piece);
  ASSERT_OK_AND_ASSIGN(std::byte * again, pool->Allocate(1000, "piece"));
  EXPECT_EQ(again, piece);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(again[i], std::byte{0xFF});
  pool->Release(again);
}

}  // namespace
}  // namespace rivulet
