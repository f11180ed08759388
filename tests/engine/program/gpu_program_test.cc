// Programs on a device for several lanes at once, with the test's own ops, on the emulated back end.
#include "engine/program/gpu_program.h"

#include <cstring>
#include <numeric>
#include <vector>

#include "engine/compile/compile.h"
#include "engine/compile/compile_gpu.h"
#include "engine/graph/op.h"
#include "engine/graph/scope.h"
#include "engine/kernels/cuda/device_code.h"
#include "engine/ops/shape_functions.h"
#include "tests/emulated_gpu/emulated_backend.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensors.h"

namespace rivulet {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::StatusIs;

constexpr int64_t kSize = 5;

// sum = x + y, by way of scratch memory.
RIVULET_OP("TestGpuAdd")
    .Input("x: float")
    .Input("y: float")
    .Output("sum: float")
    .Shape(SameAsInput(0))
    .NotDifferentiable("of a test")
    .Doc("x + y.");
RIVULET_OP("TestGpuDescend")
    .Input("var: resource")
    .Input("delta: float")
    .Stateful()
    .Shape([](InferenceContext&) { return absl::OkStatus(); })
    .NotDifferentiable("of a test")
    .Doc("var -= delta.");
RIVULET_OP("TestGpuNowhere")
    .Input("x: float")
    .Output("y: float")
    .Shape(SameAsInput(0))
    .NotDifferentiable("of a test")
    .Doc("Has a kernel for the host alone.");

struct AddArguments {
  gpu::LaneSpan<const float> x, y;
  gpu::LaneSpan<float> scratch, sum;
  int64_t count;
  gpu::Lanes lanes;
};
__global__ void AddThroughScratch(AddArguments a) {
  const int lane = a.lanes.Number(blockIdx.z);
  for (int64_t i = gpu::FirstElement(); i < a.count; i += gpu::ElementStride()) {
    a.scratch.of(lane)[i] = a.x.of(lane)[i];
    a.sum.of(lane)[i] = a.scratch.of(lane)[i] + a.y.of(lane)[i];
  }
}
RIVULET_GPU_KERNEL("test_program_add", AddArguments, AddThroughScratch, gpu::GridOver(a.count, a.lanes));

struct DescendArguments {
  gpu::LaneSpan<float> variable;
  gpu::LaneSpan<const float> delta;
  int64_t count;
  gpu::Lanes lanes;
};
__global__ void Descend(DescendArguments a) {
  const int lane = a.lanes.Number(blockIdx.z);
  for (int64_t i = gpu::FirstElement(); i < a.count; i += gpu::ElementStride()) {
    a.variable.of(lane)[i] -= a.delta.of(lane)[i];
  }
}
RIVULET_GPU_KERNEL("test_program_descend", DescendArguments, Descend, gpu::GridOver(a.count, a.lanes));

template <typename T>
gpu::LaneSpan<T> Span(const GpuOperand& operand) {
  return {reinterpret_cast<T*>(operand.data), operand.lane_stride};
}
gpu::Lanes LanesOf(const GpuContext& context) { return {context.lanes.count, context.lanes.ids}; }

class AddKernel final : public GpuKernel {
 public:
  explicit AddKernel(int64_t count) : count_(count) {}
  Status Launch(const GpuContext& context) const override {
    return context.stream->Launch(
        "test_program_add",
        AddArguments{Span<const float>(context.inputs[0]), Span<const float>(context.inputs[1]),
                     Span<float>(context.scratch), Span<float>(context.outputs[0]), count_, LanesOf(context)});
  }

 private:
  int64_t count_;
};

class DescendKernel final : public GpuKernel {
 public:
  explicit DescendKernel(int64_t count) : count_(count) {}
  Status Launch(const GpuContext& context) const override {
    return context.stream->Launch("test_program_descend",
                                  DescendArguments{Span<float>(context.variables[0]),
                                                   Span<const float>(context.inputs[0]), count_, LanesOf(context)});
  }

 private:
  int64_t count_;
};

class NothingKernel final : public Kernel {
 public:
  Status Run(const KernelContext&) const override { return {}; }
};

StatusOr<Prepared> PrepareAdd(const NodeView& node, const KernelPolicy&) {
  Prepared prepared;
  const int64_t count = node.outputs[0].shape.elements();
  prepared.kernel = std::make_unique<AddKernel>(count);
  prepared.scratch_bytes = static_cast<size_t>(count) * sizeof(float);
  prepared.in_place = {{0, 0}, {1, 0}};
  prepared.implementation = "test";
  prepared.flops = static_cast<double>(count);
  return prepared;
}
RIVULET_KERNEL("TestGpuAdd", Device::kCuda, void, PrepareAdd);

StatusOr<Prepared> PrepareDescend(const NodeView& node, const KernelPolicy&) {
  Prepared prepared;
  prepared.kernel = std::make_unique<DescendKernel>(node.variables[0].shape.elements());
  return prepared;
}
RIVULET_KERNEL("TestGpuDescend", Device::kCuda, void, PrepareDescend);

StatusOr<Prepared> PrepareNowhere(const NodeView&, const KernelPolicy&) {
  Prepared prepared;
  prepared.kernel = std::make_unique<NothingKernel>();
  return prepared;
}
RIVULET_KERNEL("TestGpuNowhere", Device::kCpu, void, PrepareNowhere);

// Memory of several lanes on the device; lane l holds what `value` says.
class LaneMemory {
 public:
  LaneMemory(GpuDevice& device, int lanes, size_t floats, size_t stride) : floats_(floats), stride_(stride) {
    auto memory = device.Allocate(stride == 0 ? floats * sizeof(float) : stride * static_cast<size_t>(lanes), "test");
    EXPECT_OK(memory);
    memory_ = *std::move(memory);
  }
  GpuOperand operand() const { return {memory_.data(), stride_}; }
  // The emulated device's memory is the host's.
  std::span<float> lane(int number) {
    return {reinterpret_cast<float*>(memory_.data() + stride_ * static_cast<size_t>(number)), floats_};
  }

 private:
  GpuMemory memory_;
  size_t floats_, stride_;
};

// sum = ((x + w) + constant) + b, v := sum, w -= sum; w and v of the lane's own, b the same for all.
class GpuProgramTest : public ::testing::Test {
 protected:
  static constexpr size_t kW = 64, kV = 128;  // bytes into buffer 0

  void SetUp() override {
    EnterWorkerThread();
    ASSERT_OK_AND_ASSIGN(device_, GpuDevice::Open(gpu::EmulatedBackend(), 0));
    ASSERT_OK_AND_ASSIGN(stream_, device_->NewStream());
    Scope scope(graph_);
    const Output x = scope.Placeholder("x", DType::kFloat32, {kSize});
    const auto variable = [&](const char* name) {
      return scope.Op("VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", Shape{kSize}}}, name);
    };
    const auto read = [&](Output handle) { return scope.Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}}); };
    const Output w = variable("w"), v = variable("v"), b = variable("b");
    const Output constant = scope.Const(Tensor::Of<float>({kSize}, {1, 2, 3, 4, 5}));
    Output sum = scope.Op("TestGpuAdd", {x, read(w)});
    sum = scope.Op("TestGpuAdd", {sum, constant});
    sum = scope.Op("TestGpuAdd", {sum, read(b)}, {}, "sum");
    scope.Op("AssignVariableOp", {v, sum}, {{"dtype", DType::kFloat32}}, "keep");
    scope.Op("TestGpuDescend", {w, sum}, {}, "descend");
    ASSERT_OK(scope.status());
    const TensorSpec spec{DType::kFloat32, {kSize}};
    signature_ = {.feeds = {{"x", spec}},
                  .fetches = {"sum"},
                  .targets = {"keep", "descend"},
                  .variables = {{"w", 0, kW, spec}, {"v", 0, kV, spec}, {"b", 1, 0, spec}}};
    ASSERT_OK_AND_ASSIGN(program_, CompileForGpu(graph_, signature_));
    ASSERT_OK_AND_ASSIGN(instance_, program_->Instantiate(*device_));
  }

  static float Start(int lane, size_t i) { return static_cast<float>(lane * 10 + static_cast<int>(i)); }

  struct Memory {
    Memory(GpuDevice& device, const GpuProgram& program, int lanes)
        : arena(device, lanes, program.arena_bytes() / sizeof(float), program.arena_bytes()),
          own(device, lanes, 64, 256),
          shared(device, lanes, kSize, 0),
          x(device, lanes, kSize, 256),
          sum(device, lanes, kSize, 256) {
      for (int lane = 0; lane < lanes; ++lane) {
        for (size_t i = 0; i < kSize; ++i) {
          own.lane(lane)[kW / sizeof(float) + i] = Start(lane, i);
          x.lane(lane)[i] = 0.5f * Start(lane, i);
        }
      }
      std::iota(shared.lane(0).begin(), shared.lane(0).end(), 100.0f);
      buffers = {own.operand(), shared.operand()};
      feeds = {x.operand()};
      fetches = {sum.operand()};
    }
    GpuBindings bindings(GpuLanes lanes) const {
      return {.arena = arena.operand(),
              .buffers = buffers,
              .feeds = feeds,
              .fetches = fetches,
              .lanes = lanes,
              .draws = {}};
    }
    LaneMemory arena, own, shared, x, sum;
    std::vector<GpuOperand> buffers, feeds, fetches;
  };

  // What `runs` runs leave in a lane that took part in all of them.
  static void ExpectRan(Memory& memory, int lane, int runs) {
    for (size_t i = 0; i < kSize; ++i) {
      float w = Start(lane, i), sum = 0;
      for (int run = 0; run < runs; ++run) {
        sum = ((0.5f * Start(lane, i) + w) + static_cast<float>(i + 1)) + (100.0f + static_cast<float>(i));
        w -= sum;
      }
      EXPECT_EQ(memory.sum.lane(lane)[i], sum) << lane;
      EXPECT_EQ(memory.own.lane(lane)[kV / sizeof(float) + i], sum) << lane;
      EXPECT_EQ(memory.own.lane(lane)[kW / sizeof(float) + i], w) << lane;
    }
  }

  Graph graph_;
  Signature signature_;
  std::shared_ptr<GpuDevice> device_;
  std::unique_ptr<GpuStream> stream_;
  std::shared_ptr<const GpuProgram> program_;
  std::unique_ptr<GpuInstance> instance_;
};

TEST_F(GpuProgramTest, Lanes_EachWithItsOwnMemory_AnyNumberOfThem) {
  for (const int lanes : {1, 3, 8}) {
    Memory memory(*device_, *program_, lanes);
    for (int run = 0; run < 2; ++run) EXPECT_OK(instance_->Enqueue(*stream_, memory.bindings({lanes, nullptr})));
    EXPECT_OK(stream_->Wait());
    for (int lane = 0; lane < lanes; ++lane) ExpectRan(memory, lane, 2);
  }
}

TEST_F(GpuProgramTest, LanesThatAreNotListed_StayAsTheyAre) {
  Memory memory(*device_, *program_, 8);
  ASSERT_OK_AND_ASSIGN(const GpuMemory ids, device_->Allocate(3 * sizeof(int32_t), "ids"));
  const std::vector<int32_t> listed = {5, 0, 2};
  EXPECT_OK(stream_->ToDevice(ids.data(), listed.data(), 3 * sizeof(int32_t)));
  EXPECT_OK(instance_->Enqueue(*stream_, memory.bindings({3, reinterpret_cast<const int32_t*>(ids.data())})));
  EXPECT_OK(stream_->Wait());
  for (int lane = 0; lane < 8; ++lane) {
    if (lane == 0 || lane == 2 || lane == 5) {
      ExpectRan(memory, lane, 1);
    } else {
      EXPECT_EQ(memory.own.lane(lane)[kW / sizeof(float)], Start(lane, 0));
      EXPECT_NE(memory.sum.lane(lane)[0], memory.sum.lane(lane)[0]);  // nobody has written there
    }
  }
}

TEST_F(GpuProgramTest, CapturedAsAGraph_ItRunsTheSame) {
  Memory memory(*device_, *program_, 3);
  ASSERT_OK(stream_->BeginCapture());
  EXPECT_OK(instance_->Enqueue(*stream_, memory.bindings({3, nullptr})));
  ASSERT_OK_AND_ASSIGN(const auto graph, stream_->EndCapture());
  for (int run = 0; run < 4; ++run) EXPECT_OK(stream_->Launch(*graph));
  EXPECT_OK(stream_->Wait());
  for (int lane = 0; lane < 3; ++lane) ExpectRan(memory, lane, 4);
}

TEST_F(GpuProgramTest, Constants_LieOnADeviceOnce_AndGoWithTheLastInstance) {
  const size_t before = device_->bytes_in_use();
  ASSERT_OK_AND_ASSIGN(auto second, program_->Instantiate(*device_));
  EXPECT_EQ(device_->bytes_in_use(), before);
  ASSERT_OK_AND_ASSIGN(const auto other, GpuDevice::Open(gpu::EmulatedBackend(), 1));
  ASSERT_OK_AND_ASSIGN(auto elsewhere, program_->Instantiate(*other));
  EXPECT_GT(other->bytes_in_use(), 0u);
  elsewhere.reset();
  EXPECT_EQ(other->bytes_in_use(), 0u);
  instance_.reset();
  second.reset();
  EXPECT_EQ(device_->bytes_in_use(), 0u);
}

TEST_F(GpuProgramTest, Listing_IsThatOfTheHostsPrograms) {
  EXPECT_EQ(program_->arena_bytes() % 256, 0u);
  EXPECT_EQ(program_->flops(), 3 * kSize);
  EXPECT_EQ(program_->fetch_specs()[0], (TensorSpec{DType::kFloat32, {kSize}}));
  int kernels = 0;
  for (const Instruction& call : program_->instructions()) kernels += call.implementation == "test" ? 1 : 0;
  EXPECT_EQ(kernels, 3);
}

TEST_F(GpuProgramTest, Bindings_ThatDoNotFit_AreRefusedBeforeAnythingRuns) {
  Memory memory(*device_, *program_, 3);
  const auto refused = [&](const char* message, auto change) {
    Memory other(*device_, *program_, 3);
    GpuLanes lanes{3, nullptr};
    GpuBindings bindings = other.bindings(lanes);
    change(bindings, other);
    EXPECT_THAT(instance_->Enqueue(*stream_, bindings),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  refused("-1 lanes", [](GpuBindings& b, Memory&) { b.lanes.count = -1; });
  refused("65536 lanes", [](GpuBindings& b, Memory&) { b.lanes.count = 65536; });
  refused("the arena is not bound", [](GpuBindings& b, Memory&) { b.arena.data = nullptr; });
  refused("the arena is written by every lane", [](GpuBindings& b, Memory&) { b.arena.lane_stride = 0; });
  refused("bytes a lane, and a stride of 64", [](GpuBindings& b, Memory&) { b.arena.lane_stride = 64; });
  refused("takes 1 feeds and 1 fetches, not 0 and 1", [](GpuBindings& b, Memory&) { b.feeds = {}; });
  refused("feed 'x' does not begin, in every lane, at a multiple of 64 bytes",
          [](GpuBindings&, Memory& m) { m.feeds[0].data += 4; });
  refused("fetch 'sum' is not bound", [](GpuBindings&, Memory& m) { m.fetches[0].data = nullptr; });
  refused("buffer 0 is written by every lane", [](GpuBindings&, Memory& m) { m.buffers[0].lane_stride = 0; });
  refused("buffer 1, which is not bound", [](GpuBindings& b, Memory& m) { b.buffers = {m.buffers.data(), 1}; });
  EXPECT_OK(stream_->Wait());
}

TEST_F(GpuProgramTest, NoLane_IsNothingToDo) {
  Memory memory(*device_, *program_, 1);
  const int64_t before = gpu::CountEmulated().launches;
  EXPECT_OK(instance_->Enqueue(*stream_, memory.bindings({0, nullptr})));
  EXPECT_OK(stream_->Wait());
  EXPECT_EQ(gpu::CountEmulated().launches, before);
}

TEST_F(GpuProgramTest, OpWithoutAKernelThere_IsNamed) {
  Graph graph;
  Scope scope(graph);
  scope.Op("TestGpuNowhere", {scope.Placeholder("x", DType::kFloat32, {kSize})}, {}, "lost");
  ASSERT_OK(scope.status());
  const Signature signature{.feeds = {{"x", {DType::kFloat32, {kSize}}}}, .fetches = {"lost"}};
  EXPECT_THAT(CompileForGpu(graph, signature),
              StatusIs(absl::StatusCode::kUnimplemented,
                       AllOf(HasSubstr("TestGpuNowhere 'lost'"), HasSubstr("has no CUDA kernel for"))));
}

TEST_F(GpuProgramTest, CompileProgram_LeavesDevicesToCompileForGpu) {
  EXPECT_THAT(CompileProgram(graph_, signature_, {.kernels = {.device = Device::kCuda}, .passes = {}}),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("CompileForGpu")));
}

TEST_F(GpuProgramTest, WhatIsKnownBefore_IsComputedByTheHost) {
  Graph graph;
  Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, {kSize});
  // No device kernel multiplies here: the product of two constants is one.
  const Output known = scope.Op("Exp", {scope.Const(Tensor::Of<float>({kSize}, {0, 0, 0, 0, 0}))});
  scope.Op("TestGpuAdd", {x, known}, {}, "sum");
  ASSERT_OK(scope.status());
  const Signature signature{.feeds = {{"x", {DType::kFloat32, {kSize}}}}, .fetches = {"sum"}};
  ASSERT_OK_AND_ASSIGN(const auto program, CompileForGpu(graph, signature));
  EXPECT_EQ(program->instructions().size(), 2u);  // the sum, and its fetch
}

TEST_F(GpuProgramTest, BufferCopies_AreMadeOfEveryLane) {
  Signature signature = signature_;
  signature.variables.pop_back();
  signature.variables.push_back({"b", 1, kW, {DType::kFloat32, {kSize}}});
  signature.copies = {{.to = 0, .from = 1, .bytes = 256}};
  ASSERT_OK_AND_ASSIGN(const auto program, CompileForGpu(graph_, signature));
  ASSERT_OK_AND_ASSIGN(const auto instance, program->Instantiate(*device_));
  Memory memory(*device_, *program, 3);
  LaneMemory base(*device_, 3, 64, 0);
  std::fill(base.lane(0).begin(), base.lane(0).end(), 7.0f);
  memory.buffers[1] = base.operand();
  EXPECT_OK(instance->Enqueue(*stream_, memory.bindings({3, nullptr})));
  EXPECT_OK(stream_->Wait());
  for (int lane = 0; lane < 3; ++lane) {
    const float sum = ((0.5f * Start(lane, 2) + 7) + 3) + 7;
    EXPECT_EQ(memory.sum.lane(lane)[2], sum);
    EXPECT_EQ(memory.own.lane(lane)[kW / sizeof(float) + 2], 7 - sum);
    EXPECT_EQ(memory.own.lane(lane)[63], 7);
  }
}

}  // namespace
}  // namespace rivulet
