// Sums over several devices, on the emulated back end.
#include "engine/gpu/gpu_sum.h"

#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "tests/emulated_gpu/emulated_backend.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

class GpuSumTest : public ::testing::Test {
 protected:
  void SetUp() override {
    gpu::SetEmulatedSettings({.devices = 3});
    for (int number = 0; number < 3; ++number) {
      ASSERT_OK_AND_ASSIGN(devices_.emplace_back(), GpuDevice::Open(gpu::EmulatedBackend(), number));
      ASSERT_OK_AND_ASSIGN(owned_.emplace_back(), devices_.back()->NewStream());
      streams_.push_back(owned_.back().get());
    }
  }
  ~GpuSumTest() override { gpu::SetEmulatedSettings({}); }

  // What lies at the first device, then at the second, after the addition.
  template <typename Number>
  std::vector<std::vector<Number>> AddedUp(const std::vector<std::vector<Number>>& numbers) {
    auto sum = GpuSum::Create(devices_);
    EXPECT_OK(sum);
    const size_t bytes = numbers[0].size() * sizeof(Number);
    std::vector<GpuMemory> memory;
    std::vector<std::byte*> there;
    for (size_t i = 0; i < devices_.size(); ++i) {
      auto allocated = devices_[i]->Allocate(bytes, "numbers");
      EXPECT_OK(allocated);
      memory.push_back(*std::move(allocated));
      there.push_back(memory.back().data());
      EXPECT_OK(streams_[i]->ToDevice(there[i], numbers[i].data(), bytes));
    }
    EXPECT_OK((*sum)->Add(streams_, there, numbers[0].size(), sizeof(Number)));
    std::vector<std::vector<Number>> after(2, std::vector<Number>(numbers[0].size()));
    // Of the first alone: it waits for the others.
    EXPECT_OK(streams_[0]->ToHost(after[0].data(), there[0], bytes));
    EXPECT_OK(streams_[0]->Wait());
    EXPECT_OK(streams_[1]->ToHost(after[1].data(), there[1], bytes));
    EXPECT_OK(streams_[1]->Wait());
    return after;
  }

  std::vector<std::shared_ptr<GpuDevice>> devices_;
  std::vector<std::unique_ptr<GpuStream>> owned_;
  std::vector<GpuStream*> streams_;
};

TEST_F(GpuSumTest, Integers_AreAddedAtTheFirstAndStayAtTheOthers) {
  const auto after = AddedUp<int64_t>({{1, -5, int64_t{1} << 62}, {2, 7, -3}, {4, 0, -(int64_t{1} << 62)}});
  EXPECT_EQ(after[0], (std::vector<int64_t>{7, 2, -3}));
  EXPECT_EQ(after[1], (std::vector<int64_t>{2, 7, -3}));
}

// Of partial sums the last one alone has to be within the bounds.
TEST_F(GpuSumTest, SumsWrapAround) {
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(AddedUp<int32_t>({{kMost, 1}, {kMost, 2}, {-kMost, 3}})[0], (std::vector<int32_t>{kMost, 6}));
}

TEST_F(GpuSumTest, MissingLibrary_IsNamed) {
  EXPECT_EQ(GpuSumMissing(gpu::EmulatedBackend()), "");
  gpu::SetEmulatedSettings({.devices = 3, .sums = false});
  EXPECT_EQ(GpuSumMissing(gpu::EmulatedBackend()), "the emulated back end was told to add nothing");
  EXPECT_THAT(GpuSum::Create(devices_),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("GPUs cannot add among themselves: the emulated")));
}

TEST_F(GpuSumTest, OneDeviceTwice_IsRefusedInTheBackEndsWords) {
  const std::vector<std::shared_ptr<GpuDevice>> twice = {devices_[0], devices_[0]};
  EXPECT_THAT(GpuSum::Create(twice), StatusIs(absl::StatusCode::kInternal,
                                              HasSubstr("2 GPUs (emulated): finding each other: invalid argument")));
}

}  // namespace
}  // namespace rivulet
