// The emulated device: barriers, lazy streams, graphs, and the errors of a device.
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "engine/kernels/cuda/device_code.h"
#include "tests/emulated_gpu/emulated_backend.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::gpu {
namespace {

using ::testing::HasSubstr;

struct AddOneArguments {
  LaneSpan<const float> x;
  LaneSpan<float> y;
  int64_t count;
  Lanes lanes;
};
__global__ void AddOne(AddOneArguments a) {
  const int lane = a.lanes.Number(blockIdx.z);
  for (int64_t i = FirstElement(); i < a.count; i += ElementStride()) a.y.of(lane)[i] = a.x.of(lane)[i] + 1;
}
RIVULET_GPU_KERNEL("test_add_one", AddOneArguments, AddOne, GridOver(a.count, a.lanes));

struct BlockArguments {
  const int32_t* x;
  int32_t* y;
  int32_t blocks;
  int32_t threads;
};
// Turns the elements of each block around, by memory that its threads share, and adds the block's sum by a tree.
__global__ void ReverseAndAddSum(BlockArguments a) {
  __shared__ int32_t reversed[256];
  __shared__ int32_t sums[256];
  const int size = static_cast<int>(blockDim.x);
  const int thread = static_cast<int>(threadIdx.x);
  const int32_t mine = a.x[blockIdx.x * blockDim.x + threadIdx.x];
  reversed[size - 1 - thread] = mine;
  sums[thread] = mine;
  __syncthreads();
  for (int half = size / 2; half > 0; half /= 2) {
    if (thread < half) sums[thread] += sums[thread + half];
    __syncthreads();
  }
  a.y[blockIdx.x * blockDim.x + threadIdx.x] = reversed[thread] + sums[0];
}
RIVULET_GPU_KERNEL("test_reverse", BlockArguments, ReverseAndAddSum,
                   (Grid{static_cast<uint32_t>(a.blocks), 1, 1, static_cast<uint32_t>(a.threads)}));

// Half of the threads leave before the barrier.
__global__ void LeaveEarly(BlockArguments a) {
  if (threadIdx.x >= blockDim.x / 2) return;
  __syncthreads();
  a.y[threadIdx.x] = 1;
}
RIVULET_GPU_KERNEL("test_leave_early", BlockArguments, LeaveEarly, (Grid{1, 1, 1, static_cast<uint32_t>(a.threads)}));

__global__ void TwoBarriers(BlockArguments a) {
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  a.y[threadIdx.x] = 1;
}
RIVULET_GPU_KERNEL("test_two_barriers", BlockArguments, TwoBarriers, (Grid{1, 1, 1, static_cast<uint32_t>(a.threads)}));

__global__ void TrapAtSeven(BlockArguments a) {
  __syncthreads();
  if (threadIdx.x == 7) __trap();
  a.y[threadIdx.x] = 1;
}
RIVULET_GPU_KERNEL("test_trap", BlockArguments, TrapAtSeven, (Grid{1, 1, 1, static_cast<uint32_t>(a.threads)}));

class EmulatedTest : public ::testing::Test {
 protected:
  EmulatedTest() { EXPECT_EQ(api_.stream_create(0, &stream_), 0); }
  ~EmulatedTest() override {
    api_.stream_destroy(stream_);
    SetEmulatedSettings({});
  }

  template <typename Arguments>
  int Launch(const std::string& name, const Arguments& arguments) {
    for (size_t i = 0; i < api_.kernel_count; ++i) {
      if (api_.kernels[i].name != name) continue;
      EXPECT_EQ(api_.kernels[i].argument_bytes, sizeof(arguments));
      return api_.kernels[i].launch(stream_, &arguments);
    }
    ADD_FAILURE() << "no kernel " << name;
    return 1;
  }
  std::string Error(int code) { return api_.error_text(code); }

  const RivuletGpuApi& api_ = EmulatedBackend();
  void* stream_ = nullptr;
};

TEST_F(EmulatedTest, Work_RunsWhenSomebodyWaits) {
  std::vector<float> x = {1, 2, 3}, y = {0, 0, 0};
  ASSERT_EQ(Launch("test_add_one", AddOneArguments{{x.data(), 0}, {y.data(), 0}, 3, {1, nullptr}}), 0);
  EXPECT_EQ(y, (std::vector<float>{0, 0, 0}));
  x[0] = 5;  // what the host changes too early shows as well
  ASSERT_EQ(api_.stream_wait(stream_), 0);
  EXPECT_EQ(y, (std::vector<float>{6, 3, 4}));
}

TEST_F(EmulatedTest, Lanes_AreTheGridsDepth_AndIdsNumberThem) {
  constexpr int64_t kCount = 5000;  // more than one block
  std::vector<float> x(3 * kCount), y(3 * kCount, 0);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const std::vector<int32_t> ids = {2, 0};
  ASSERT_EQ(
      Launch("test_add_one",
             AddOneArguments{
                 {x.data(), kCount * sizeof(float)}, {y.data(), kCount * sizeof(float)}, kCount, {2, ids.data()}}),
      0);
  ASSERT_EQ(api_.stream_wait(stream_), 0);
  for (size_t i = 0; i < y.size(); ++i) {
    const bool listed = i / kCount != 1;
    ASSERT_EQ(y[i], listed ? x[i] + 1 : 0) << i;
  }
}

TEST_F(EmulatedTest, Barriers_AreKept) {
  for (const int32_t threads : {1, 2, 64, 256}) {
    constexpr int32_t kBlocks = 5;
    std::vector<int32_t> x(kBlocks * threads), y(kBlocks * threads, 0);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<int32_t>(i * i % 1000);
    ASSERT_EQ(Launch("test_reverse", BlockArguments{x.data(), y.data(), kBlocks, threads}), 0);
    ASSERT_EQ(api_.stream_wait(stream_), 0);
    for (int32_t block = 0; block < kBlocks; ++block) {
      int32_t sum = 0;
      for (int32_t i = 0; i < threads; ++i) sum += x[block * threads + i];
      for (int32_t i = 0; i < threads; ++i) {
        ASSERT_EQ(y[block * threads + i], x[block * threads + threads - 1 - i] + sum) << threads << " " << i;
      }
    }
  }
}

TEST_F(EmulatedTest, Barrier_ThatNotAllReach_FailsTheLaunch) {
  std::vector<int32_t> y(64, 0);
  ASSERT_EQ(Launch("test_leave_early", BlockArguments{nullptr, y.data(), 1, 64}), 0);
  const int code = api_.stream_wait(stream_);
  ASSERT_NE(code, 0);
  EXPECT_THAT(Error(code), HasSubstr("was reached by 32 of the 64 threads of a block"));
  // The next launch finds everything in order.
  ASSERT_EQ(Launch("test_reverse", BlockArguments{y.data(), y.data(), 1, 64}), 0);
  EXPECT_EQ(api_.stream_wait(stream_), 0);
}

TEST_F(EmulatedTest, Barriers_OfUnlikeLines_FailTheLaunch) {
  std::vector<int32_t> y(64, 0);
  ASSERT_EQ(Launch("test_two_barriers", BlockArguments{nullptr, y.data(), 1, 64}), 0);
  const int code = api_.stream_wait(stream_);
  ASSERT_NE(code, 0);
  EXPECT_THAT(Error(code), HasSubstr("at two barriers"));
}

TEST_F(EmulatedTest, Trap_FailsTheLaunch_AndWhatFollowsDoesNotRun) {
  std::vector<int32_t> y(64, 0);
  std::vector<float> x = {1}, z = {0};
  ASSERT_EQ(Launch("test_trap", BlockArguments{nullptr, y.data(), 1, 64}), 0);
  ASSERT_EQ(Launch("test_add_one", AddOneArguments{{x.data(), 0}, {z.data(), 0}, 1, {1, nullptr}}), 0);
  const int code = api_.stream_wait(stream_);
  ASSERT_NE(code, 0);
  EXPECT_EQ(Error(code), "a thread came to __trap()");
  EXPECT_EQ(z[0], 0);
}

TEST_F(EmulatedTest, GridsAndBlocks_BeyondADevice_AreRefused) {
  std::vector<int32_t> y(1);
  EXPECT_EQ(Error(Launch("test_trap", BlockArguments{nullptr, y.data(), 1, 1025})),
            "a block of 1025 threads: 1 to 1024 are possible");
  EXPECT_THAT(Error(Launch("test_add_one", AddOneArguments{{nullptr, 0}, {nullptr, 0}, 1, {65536, nullptr}})),
              HasSubstr("a grid of 1 x 1 x 65536 blocks"));
}

TEST_F(EmulatedTest, Capture_KeepsWorkAndRunsNone_AGraphRunsItAsOftenAsAsked) {
  std::vector<float> x = {1};
  ASSERT_EQ(api_.capture_begin(stream_), 0);
  ASSERT_EQ(Launch("test_add_one", AddOneArguments{{x.data(), 0}, {x.data(), 0}, 1, {1, nullptr}}), 0);
  void* memory = nullptr;
  EXPECT_EQ(Error(api_.allocate(0, 16, &memory)), "not possible while a stream is captured");
  EXPECT_EQ(Error(api_.stream_wait(stream_)), "not possible while a stream is captured");
  void* graph = nullptr;
  ASSERT_EQ(api_.capture_end(stream_, &graph), 0);
  ASSERT_EQ(api_.stream_wait(stream_), 0);
  EXPECT_EQ(x[0], 1);
  ASSERT_EQ(api_.graph_launch(graph, stream_), 0);
  ASSERT_EQ(api_.graph_launch(graph, stream_), 0);
  ASSERT_EQ(api_.graph_destroy(graph), 0);  // what was put into the stream stays
  ASSERT_EQ(api_.stream_wait(stream_), 0);
  EXPECT_EQ(x[0], 3);
}

TEST_F(EmulatedTest, Event_MakesAStreamWaitForAnother) {
  void* other = nullptr;
  void* event = nullptr;
  ASSERT_EQ(api_.stream_create(0, &other), 0);
  ASSERT_EQ(api_.event_create(0, &event), 0);
  std::vector<float> x = {1}, y = {0}, z = {0};
  const auto add_one = [](std::vector<float>& from, std::vector<float>& to) {
    return AddOneArguments{{from.data(), 0}, {to.data(), 0}, 1, {1, nullptr}};
  };
  ASSERT_EQ(Launch("test_add_one", add_one(x, y)), 0);
  ASSERT_EQ(api_.event_record(event, stream_), 0);
  ASSERT_EQ(Launch("test_add_one", add_one(y, y)), 0);  // behind the event
  ASSERT_EQ(api_.stream_wait_event(other, event), 0);
  ASSERT_EQ(api_.copy(other, z.data(), y.data(), sizeof(float), RIVULET_GPU_COPY_ON_DEVICE), 0);
  ASSERT_EQ(api_.stream_wait(other), 0);
  EXPECT_EQ(z[0], 2);  // after the event and before what follows it
  ASSERT_EQ(api_.stream_wait(stream_), 0);
  EXPECT_EQ(y[0], 3);
  float milliseconds = -1;
  EXPECT_EQ(api_.event_milliseconds(event, event, &milliseconds), 0);
  EXPECT_EQ(milliseconds, 0);
  api_.event_destroy(event);
  api_.stream_destroy(other);
}

TEST_F(EmulatedTest, Memory_IsFilledWithNaNs_CountedAndLimited) {
  SetEmulatedSettings({.devices = 1, .memory_bytes = 1000});
  const size_t before = CountEmulated().bytes_allocated;
  void* memory = nullptr;
  ASSERT_EQ(api_.allocate(0, 600, &memory), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 256, 0u);
  float first = 0;
  std::memcpy(&first, memory, sizeof(first));
  EXPECT_NE(first, first);
  EXPECT_EQ(CountEmulated().bytes_allocated, before + 600);
  void* more = nullptr;
  EXPECT_EQ(api_.allocate(0, 401, &more), RIVULET_GPU_OUT_OF_MEMORY);
  RivuletGpuProperties properties;
  ASSERT_EQ(api_.properties(0, &properties), 0);
  EXPECT_EQ(properties.free_bytes, 400u);
  EXPECT_NE(api_.properties(1, &properties), 0);
  ASSERT_EQ(api_.release(0, memory), 0);
  EXPECT_EQ(CountEmulated().bytes_allocated, before);
}

TEST_F(EmulatedTest, LaunchThatIsToFail_Fails) {
  SetEmulatedSettings({.launches_until_failure = 1});
  std::vector<float> x = {1};
  const AddOneArguments add{{x.data(), 0}, {x.data(), 0}, 1, {1, nullptr}};
  for (int launch = 0; launch < 3; ++launch) ASSERT_EQ(Launch("test_add_one", add), 0);
  EXPECT_EQ(Error(api_.stream_wait(stream_)), "a failure that was asked for");
  EXPECT_EQ(x[0], 2);
}

TEST_F(EmulatedTest, Threads_HaveBlocksOfTheirOwn) {
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([this] {
      void* stream = nullptr;
      api_.stream_create(0, &stream);
      std::vector<int32_t> x(256, 1), y(256, 0);
      for (int turn = 0; turn < 10; ++turn) {
        BlockArguments arguments{x.data(), y.data(), 1, 256};
        for (size_t i = 0; i < api_.kernel_count; ++i) {
          if (std::strcmp(api_.kernels[i].name, "test_reverse") == 0) api_.kernels[i].launch(stream, &arguments);
        }
        EXPECT_EQ(api_.stream_wait(stream), 0);
        for (const int32_t value : y) EXPECT_EQ(value, 257);
      }
      api_.stream_destroy(stream);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(KernelListTest, TwoOfOneName_StopTheProgram) {
  EXPECT_DEATH(KernelList("test_add_one", 8, nullptr), "device kernel 'test_add_one' is registered twice");
}

}  // namespace
}  // namespace rivulet::gpu
