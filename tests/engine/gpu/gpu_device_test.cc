// Devices on the emulated back end: memory, streams, events and graphs, and messages of failures.
#include "engine/gpu/gpu_device.h"

#include <vector>

#include "engine/kernels/cuda/device_code.h"
#include "tests/emulated_gpu/emulated_backend.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using gpu::EmulatedBackend;
using gpu::SetEmulatedSettings;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::StatusIs;

struct DoubleArguments {
  float* x;
  int64_t count;
};
__global__ void Double(DoubleArguments a) {
  for (int64_t i = gpu::FirstElement(); i < a.count; i += gpu::ElementStride()) a.x[i] = 2 * a.x[i];
}
RIVULET_GPU_KERNEL("test_double", DoubleArguments, Double, (gpu::Grid{2, 1, 1, 32}));

class GpuDeviceTest : public ::testing::Test {
 protected:
  ~GpuDeviceTest() override { SetEmulatedSettings({}); }
  std::shared_ptr<GpuDevice> Open(int number = 0, const GpuOptions& options = {}) {
    auto device = GpuDevice::Open(EmulatedBackend(), number, options);
    EXPECT_OK(device);
    return *device;
  }
};

TEST_F(GpuDeviceTest, Open_NoSuchDevice_SaysWhatThereIs) {
  EXPECT_THAT(GpuDevice::Open(EmulatedBackend(), 2),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "there is no GPU 2 here: there are 2, numbered from 0 (CUDA_VISIBLE_DEVICES chooses)"));
  EXPECT_THAT(GpuDevice::Open(EmulatedBackend(), -1), StatusIs(absl::StatusCode::kFailedPrecondition));
  SetEmulatedSettings({.devices = 0});
  EXPECT_THAT(GpuDevice::Open(EmulatedBackend(), 0),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "there is no GPU 0 here: the emulated back end was told to have none"));
}

TEST_F(GpuDeviceTest, Options_BoundItsMemory) {
  SetEmulatedSettings({.memory_bytes = 1'000'000});
  for (const double fraction : {0.0, -0.5, 1.5, static_cast<double>(NAN)}) {
    EXPECT_THAT(GpuDevice::Open(EmulatedBackend(), 0, {.per_process_gpu_memory_fraction = fraction}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("in (0, 1]")));
  }
  EXPECT_EQ(Open(0, {.per_process_gpu_memory_fraction = 0.5})->bytes_limit(), 500'000u);
  EXPECT_EQ(Open(0, {.limit_bytes = 1000})->bytes_limit(), 1000u);
  const auto device = Open(0, {.limit_bytes = 1 << 20});
  EXPECT_EQ(device->bytes_limit(), 900'000u);
  EXPECT_THAT(device->Allocate(950'000, "weights"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("GPU 0: no 950.0 kB of device memory for weights"))));
}

TEST_F(GpuDeviceTest, Memory_GoesBackToThePool_AndTheDeviceLivesAsLongAsIt) {
  const size_t before = gpu::CountEmulated().bytes_allocated;
  GpuMemory memory;
  {
    const auto device = Open(1);
    ASSERT_OK_AND_ASSIGN(memory, device->Allocate(1000, "weights"));
    EXPECT_GE(device->bytes_in_use(), 1000u);
    GpuMemory moved = std::move(memory);
    EXPECT_EQ(memory.data(), nullptr);
    EXPECT_EQ(moved.size(), 1000u);
    memory = std::move(moved);
    { ASSERT_OK_AND_ASSIGN(const GpuMemory other, device->Allocate(5000, "arena")); }
    EXPECT_LT(device->bytes_in_use(), 2000u);
    EXPECT_EQ(device->bytes_available(), device->bytes_limit() - device->bytes_in_use());
    EXPECT_GT(device->bytes_held(), 5000u);
  }
  EXPECT_GT(gpu::CountEmulated().bytes_allocated, before);
  memory = {};
  EXPECT_EQ(gpu::CountEmulated().bytes_allocated, before);
}

#ifdef __SANITIZE_ADDRESS__
TEST_F(GpuDeviceTest, MemoryBesideAPiece_AndAfterItsEnd_IsFenced) {
  const auto device = Open();
  ASSERT_OK_AND_ASSIGN(GpuMemory memory, device->Allocate(1024, "x"));
  std::byte* const data = memory.data();
  data[1023] = std::byte{1};
  EXPECT_DEATH(data[1024] = std::byte{1}, "use-after-poison");
  memory = {};
  EXPECT_DEATH(data[0] = std::byte{1}, "use-after-poison");
}
#endif

TEST_F(GpuDeviceTest, Stream_CopiesFillsAndLaunches_InOrder) {
  const auto device = Open(1);
  ASSERT_OK_AND_ASSIGN(const auto stream, device->NewStream());
  ASSERT_OK_AND_ASSIGN(const GpuMemory memory, device->Allocate(100 * sizeof(float), "x"));
  ASSERT_OK_AND_ASSIGN(const PinnedMemory pinned, device->AllocatePinned(100 * sizeof(float)));
  std::vector<float> host(100, 3);
  auto* x = reinterpret_cast<float*>(memory.data());
  EXPECT_OK(stream->ToDevice(x, host.data(), 400));
  EXPECT_OK(stream->Launch("test_double", DoubleArguments{x, 100}));
  EXPECT_OK(stream->Fill(x, 0, 40));
  EXPECT_OK(stream->OnDevice(x + 10, x, 4));
  EXPECT_OK(stream->ToHost(pinned.data(), x, 400));
  EXPECT_OK(stream->Wait());
  const auto* back = reinterpret_cast<const float*>(pinned.data());
  EXPECT_EQ(back[9], 0);
  EXPECT_EQ(back[10], 0);
  EXPECT_EQ(back[11], 6);
  EXPECT_EQ(back[99], 6);
}

TEST_F(GpuDeviceTest, Launch_UnknownOrOfOtherArguments_IsRefused) {
  const auto device = Open();
  ASSERT_OK_AND_ASSIGN(const auto stream, device->NewStream());
  EXPECT_THAT(stream->Launch("test_triple", DoubleArguments{}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("the emulated back end has no kernel 'test_triple'")));
  EXPECT_THAT(stream->Launch("test_double", int32_t{7}),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("takes 16 bytes of arguments and was given 4")));
}

TEST_F(GpuDeviceTest, FailureOfAKernel_IsToldByWait) {
  const auto device = Open();
  ASSERT_OK_AND_ASSIGN(const auto stream, device->NewStream());
  SetEmulatedSettings({.launches_until_failure = 0});
  float x = 1;
  EXPECT_OK(stream->Launch("test_double", DoubleArguments{&x, 1}));
  EXPECT_THAT(stream->Wait(), StatusIs(absl::StatusCode::kInternal, HasSubstr("GPU 0 (emulated): waiting for its work: "
                                                                              "a failure that was asked for")));
  EXPECT_OK(stream->Wait());
}

TEST_F(GpuDeviceTest, Graph_RunsWhatWasCaptured_AndMayGoBeforeItRan) {
  const auto device = Open();
  ASSERT_OK_AND_ASSIGN(const auto stream, device->NewStream());
  float x = 1;
  ASSERT_OK(stream->BeginCapture());
  EXPECT_OK(stream->Launch("test_double", DoubleArguments{&x, 1}));
  EXPECT_THAT(stream->Wait(), StatusIs(absl::StatusCode::kInternal, HasSubstr("while a stream is captured")));
  ASSERT_OK_AND_ASSIGN(auto graph, stream->EndCapture());
  EXPECT_OK(stream->Wait());
  EXPECT_EQ(x, 1);
  for (int turn = 0; turn < 3; ++turn) EXPECT_OK(stream->Launch(*graph));
  graph.reset();
  EXPECT_OK(stream->Wait());
  EXPECT_EQ(x, 8);
}

TEST_F(GpuDeviceTest, StreamInTheMidstOfACapture_MayGo) {
  const auto device = Open();
  {
    ASSERT_OK_AND_ASSIGN(const auto stream, device->NewStream());
    ASSERT_OK(stream->BeginCapture());
  }
  EXPECT_OK(device->Allocate(10, "after it"));
}

TEST_F(GpuDeviceTest, Events_OrderStreams_AndTellTimes) {
  const auto device = Open(1);
  ASSERT_OK_AND_ASSIGN(const auto first, device->NewStream());
  ASSERT_OK_AND_ASSIGN(const auto second, device->NewStream());
  ASSERT_OK_AND_ASSIGN(const auto begin, device->NewEvent());
  ASSERT_OK_AND_ASSIGN(const auto end, device->NewEvent());
  EXPECT_THAT(end->MillisecondsSince(*begin), StatusIs(absl::StatusCode::kFailedPrecondition));
  float x = 1, y = 0;
  EXPECT_OK(first->Record(*begin));
  EXPECT_OK(first->Launch("test_double", DoubleArguments{&x, 1}));
  EXPECT_OK(first->Record(*end));
  EXPECT_OK(second->WaitFor(*end));
  EXPECT_OK(second->OnDevice(&y, &x, sizeof(x)));
  EXPECT_OK(second->Wait());
  EXPECT_EQ(y, 2);
  ASSERT_OK_AND_ASSIGN(const double milliseconds, end->MillisecondsSince(*begin));
  EXPECT_GE(milliseconds, 0);
}

TEST_F(GpuDeviceTest, Devices_AreApart_EachThreadWorksForBoth) {
  const auto first = Open(0), second = Open(1);
  ASSERT_OK_AND_ASSIGN(const auto on_first, first->NewStream());
  ASSERT_OK_AND_ASSIGN(const auto on_second, second->NewStream());
  float x = 1, y = 1;
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_OK(on_first->Launch("test_double", DoubleArguments{&x, 1}));
    EXPECT_OK(on_second->Launch("test_double", DoubleArguments{&y, 1}));
  }
  EXPECT_OK(on_first->Wait());
  EXPECT_EQ(x, 8);
  EXPECT_EQ(y, 1);
  EXPECT_OK(on_second->Wait());
  EXPECT_EQ(y, 8);
}

}  // namespace
}  // namespace rivulet
