// Records of device activity: the host's clock, labels, graphs, and one recording at a time.
#include "engine/gpu/gpu_activity.h"

#include <chrono>

#include "engine/gpu/gpu_device.h"
#include "tests/emulated_gpu/emulated_backend.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class GpuActivityTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(device_, GpuDevice::Open(gpu::EmulatedBackend(), 1));
    ASSERT_OK_AND_ASSIGN(stream_, device_->NewStream());
    ASSERT_OK_AND_ASSIGN(memory_, device_->Allocate(1024, "a test"));
  }

  std::shared_ptr<GpuDevice> device_;
  std::unique_ptr<GpuStream> stream_;
  GpuMemory memory_;
};

TEST(OnHostClockTest, ClockThatGoesTwiceAsFast_IsFollowed) {
  EXPECT_EQ(OnHostClock({1000, 50}, {1200, 150}, 1100), 100);
  EXPECT_EQ(OnHostClock({1000, 50}, {1200, 150}, 1000), 50);
  EXPECT_EQ(OnHostClock({1000, 50}, {1200, 150}, 1200), 150);
}
TEST(OnHostClockTest, OneReading_IsAnOffset) { EXPECT_EQ(OnHostClock({1000, 50}, {1000, 50}, 1007), 57); }

TEST_F(GpuActivityTest, Work_IsToldInOrderOnTheHostsClock) {
  ASSERT_OK_AND_ASSIGN(auto recording, GpuRecording::Start(device_->api()));
  const int64_t before = Now();
  ASSERT_OK(stream_->Label(7));
  ASSERT_OK(stream_->Fill(memory_.data(), 0, 512));
  ASSERT_OK(stream_->Label(0));
  ASSERT_OK(stream_->OnDevice(memory_.data() + 512, memory_.data(), 256));
  ASSERT_OK(stream_->Wait());
  const int64_t after = Now();
  ASSERT_OK_AND_ASSIGN(const auto activities, std::move(*recording).Stop());
  ASSERT_EQ(activities.size(), 2u);
  EXPECT_EQ(activities[0].kind, RIVULET_GPU_ACTIVITY_FILL);
  EXPECT_EQ(activities[0].label, 7u);
  EXPECT_EQ(activities[0].bytes, 512u);
  EXPECT_EQ(activities[1].kind, RIVULET_GPU_ACTIVITY_COPY);
  EXPECT_EQ(activities[1].label, 0u);
  EXPECT_EQ(activities[1].bytes, 256u);
  // The two clocks are read with a little time between.
  constexpr int64_t kUnsure = 1'000'000;
  for (const GpuActivity& activity : activities) {
    EXPECT_EQ(activity.device, 1);
    EXPECT_EQ(activity.stream, activities[0].stream);
    EXPECT_GE(activity.begin, before - kUnsure);
    EXPECT_LE(activity.begin, activity.end);
    EXPECT_LE(activity.end, after + kUnsure);
  }
}

// A driver names the work of a graph by the call that launched it.
TEST_F(GpuActivityTest, Graph_BearsTheLabelOfItsLaunch) {
  ASSERT_OK(stream_->BeginCapture());
  ASSERT_OK(stream_->Label(1));
  ASSERT_OK(stream_->Fill(memory_.data(), 0, 512));
  ASSERT_OK(stream_->Fill(memory_.data(), 1, 512));
  ASSERT_OK(stream_->Label(0));
  ASSERT_OK_AND_ASSIGN(const auto graph, stream_->EndCapture());
  ASSERT_OK_AND_ASSIGN(auto recording, GpuRecording::Start(device_->api()));
  ASSERT_OK(stream_->Label(2));
  ASSERT_OK(stream_->Launch(*graph));
  ASSERT_OK(stream_->Label(0));
  ASSERT_OK(stream_->Wait());
  ASSERT_OK_AND_ASSIGN(const auto activities, std::move(*recording).Stop());
  std::vector<uint64_t> labels;
  for (const GpuActivity& activity : activities) labels.push_back(activity.label);
  EXPECT_THAT(labels, ElementsAre(2, 2));
}

TEST_F(GpuActivityTest, WorkBesideARecording_IsNotTold) {
  ASSERT_OK(stream_->Fill(memory_.data(), 0, 512));
  ASSERT_OK(stream_->Wait());
  ASSERT_OK_AND_ASSIGN(auto recording, GpuRecording::Start(device_->api()));
  ASSERT_OK_AND_ASSIGN(const auto activities, std::move(*recording).Stop());
  EXPECT_TRUE(activities.empty());
}

TEST_F(GpuActivityTest, SecondAtOnce_IsRefused) {
  {
    ASSERT_OK_AND_ASSIGN(const auto recording, GpuRecording::Start(device_->api()));
    EXPECT_THAT(GpuRecording::Start(device_->api()),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("recorded already")));
  }
  EXPECT_OK(GpuRecording::Start(device_->api()).status());
}

TEST_F(GpuActivityTest, BackEndWithoutRecords_SaysWhatIsMissing) {
  RivuletGpuApi without = device_->api();
  without.activity_missing = [] { return "install CUDA's cupti"; };
  EXPECT_THAT(GpuRecording::Start(without),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("install CUDA's cupti")));
}

}  // namespace
}  // namespace rivulet
