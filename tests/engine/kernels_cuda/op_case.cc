#include "tests/engine/kernels_cuda/op_case.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "engine/base/philox.h"
#include "engine/program/concrete_graph.h"
#include "engine/program/gpu_kernel.h"
#include "tests/emulated_gpu/emulated_backend.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

constexpr size_t kBeside = 256;  // bytes of 0xFF before and behind each tensor
constexpr uint64_t kStep = 7;

StreamKey StreamOf(uint32_t seed) { return {.key = {{seed, 99}}, .ordinal = 3, .round = 12, .purpose = 5}; }

bool Contains(const std::vector<int>& values, size_t value) {
  return std::find(values.begin(), values.end(), static_cast<int>(value)) != values.end();
}

// The graph of one op, its node as kernels see it.
class OneOp {
 public:
  static StatusOr<std::unique_ptr<OneOp>> Make(const OpCase& c) {
    auto made = std::unique_ptr<OneOp>(new OneOp);
    RIVULET_RETURN_IF_ERROR(made->Build(c, c.inputs(1)));
    return made;
  }
  const NodeView& view() const { return *view_; }

 private:
  Status Build(const OpCase& c, const std::vector<Tensor>& inputs) {
    std::vector<Output> edges;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const TensorSpec tensor{inputs[i].dtype(), inputs[i].shape()};
      NodeSpec spec;
      spec.name = fmt::format("input{}", i);
      spec.attrs["dtype"] = tensor.dtype;
      if (Contains(c.constants, i)) {
        spec.op = "Const";
        spec.attrs["value"] = inputs[i];
      } else if (Contains(c.variables, i)) {
        spec.op = "VarHandleOp";
        spec.attrs["shape"] = tensor.shape;
        signature_.variables.push_back({spec.name, 0, 0, tensor});
      } else {
        spec.op = "Placeholder";
        spec.attrs["shape"] = tensor.shape;
        signature_.feeds.push_back({spec.name, tensor});
      }
      RIVULET_ASSIGN_OR_RETURN(Node * node, graph_.AddNode(std::move(spec)));
      edges.push_back(node->output());
    }
    RIVULET_ASSIGN_OR_RETURN(Node * node,
                             graph_.AddNode({.name = "op", .op = c.op, .inputs = edges, .attrs = c.attrs}));
    signature_.targets = {"op"};
    RIVULET_ASSIGN_OR_RETURN(ConcreteGraph concrete, ConcreteGraph::Build(graph_, signature_, options_));
    concrete_ = std::make_unique<ConcreteGraph>(std::move(concrete));
    view_.emplace(concrete_->View(*node, storage_));
    return absl::OkStatus();
  }

  Graph graph_;
  Signature signature_;
  CompileOptions options_;
  std::unique_ptr<ConcreteGraph> concrete_;
  ConcreteGraph::ViewStorage storage_;
  std::optional<NodeView> view_;
};

StatusOr<Prepared> PrepareFor(Device device, const NodeView& view) {
  KernelPolicy policy;
  policy.device = device;
  RIVULET_ASSIGN_OR_RETURN(const PrepareFn* prepare,
                           KernelRegistry::Global().Find(view.node.type(), device, KernelDType(view.node)));
  return (*prepare)(view, policy);
}

// What one lane holds after a run: outputs, then variables.
using LaneResults = std::vector<Tensor>;

StatusOr<LaneResults> RunOnCpu(const OpCase& c, const NodeView& view, uint32_t seed) {
  RIVULET_ASSIGN_OR_RETURN(const Prepared prepared, PrepareFor(Device::kCpu, view));
  std::vector<Tensor> inputs = c.inputs(seed);
  std::vector<std::byte*> in, out, variables;
  LaneResults results;
  for (const TensorSpec& spec : view.outputs) results.emplace_back(spec.dtype, spec.shape);
  for (Tensor& result : results) out.push_back(result.data());
  for (size_t i = 0; i < inputs.size(); ++i) (Contains(c.variables, i) ? variables : in).push_back(inputs[i].data());
  AlignedBuffer scratch(prepared.scratch_bytes);
  const StreamKey stream = StreamOf(seed);
  const auto state = prepared.kernel->NewState();
  KernelContext context;
  context.inputs = in;
  context.outputs = out;
  context.variables = variables;
  context.scratch = scratch.data();
  context.rng = &stream;
  context.step = kStep;
  context.state = state.get();
  RIVULET_RETURN_IF_ERROR(prepared.kernel->Run(context));
  for (const int variable : c.variables) results.push_back(inputs[static_cast<size_t>(variable)]);
  return results;
}

// Memory of one operand for all lanes, with 0xFF around each lane's.
struct DeviceOperand {
  size_t bytes = 0, stride = 0;
  GpuMemory memory;
  GpuOperand operand() const { return {memory.data() + kBeside, stride}; }
  size_t at(size_t lane) const { return kBeside + lane * stride; }
};

StatusOr<DeviceOperand> NewOperand(GpuDevice& device, GpuStream& stream, size_t bytes, size_t lanes) {
  DeviceOperand made;
  made.bytes = bytes;
  made.stride = (bytes + 255) / 256 * 256 + kBeside;
  RIVULET_ASSIGN_OR_RETURN(made.memory, device.Allocate(kBeside + lanes * made.stride, "a tensor"));
  RIVULET_RETURN_IF_ERROR(stream.Fill(made.memory.data(), 0xFF, kBeside + lanes * made.stride));
  return made;
}

// Runs the lanes `ids` of `lanes`; gives what every lane holds then.
class DeviceRun {
 public:
  static StatusOr<std::vector<LaneResults>> Run(const OpCase& c, const NodeView& view, size_t lanes,
                                                const std::vector<int32_t>& ids) {
    DeviceRun run(c, view, lanes);
    RIVULET_ASSIGN_OR_RETURN(run.device_, GpuDevice::Open(gpu::EmulatedBackend(), 0, c.device));
    RIVULET_ASSIGN_OR_RETURN(run.stream_, run.device_->NewStream());
    RIVULET_RETURN_IF_ERROR(run.Place());
    RIVULET_RETURN_IF_ERROR(run.Launch(ids));
    return run.Collect();
  }

 private:
  DeviceRun(const OpCase& c, const NodeView& view, size_t lanes) : case_(c), view_(view), lanes_(lanes) {
    for (size_t lane = 0; lane < lanes; ++lane) values_.push_back(c.inputs(static_cast<uint32_t>(lane) + 1));
  }

  Status Place() {
    for (size_t i = 0; i < values_[0].size(); ++i) {
      RIVULET_ASSIGN_OR_RETURN(DeviceOperand operand, NewOperand(*device_, *stream_, values_[0][i].bytes(), lanes_));
      for (size_t lane = 0; lane < lanes_; ++lane) {
        RIVULET_RETURN_IF_ERROR(
            stream_->ToDevice(operand.memory.data() + operand.at(lane), values_[lane][i].data(), operand.bytes));
      }
      (Contains(case_.variables, i) ? variables_ : inputs_).push_back(std::move(operand));
    }
    for (const TensorSpec& spec : view_.outputs) {
      const size_t bytes = static_cast<size_t>(spec.shape.elements()) * SizeOf(spec.dtype);
      RIVULET_ASSIGN_OR_RETURN(DeviceOperand operand, NewOperand(*device_, *stream_, bytes, lanes_));
      outputs_.push_back(std::move(operand));
    }
    return absl::OkStatus();
  }

  static std::vector<GpuOperand> Operands(const std::vector<DeviceOperand>& of) {
    std::vector<GpuOperand> operands;
    for (const DeviceOperand& operand : of) operands.push_back(operand.operand());
    return operands;
  }

  Status Launch(const std::vector<int32_t>& ids) {
    RIVULET_ASSIGN_OR_RETURN(const Prepared prepared, PrepareFor(Device::kCuda, view_));
    const auto* const kernel = dynamic_cast<const GpuKernel*>(prepared.kernel.get());
    if (kernel == nullptr) return Internal("no GPU kernel");
    RIVULET_ASSIGN_OR_RETURN(const DeviceOperand scratch,
                             NewOperand(*device_, *stream_, prepared.scratch_bytes, lanes_));
    std::vector<StreamKey> streams;
    for (size_t lane = 0; lane < lanes_; ++lane) streams.push_back(StreamOf(static_cast<uint32_t>(lane) + 1));
    const std::vector<uint64_t> steps(lanes_, kStep);
    RIVULET_ASSIGN_OR_RETURN(const GpuMemory device_streams, device_->Allocate(lanes_ * sizeof(StreamKey), "streams"));
    RIVULET_ASSIGN_OR_RETURN(const GpuMemory device_steps, device_->Allocate(lanes_ * sizeof(uint64_t), "steps"));
    RIVULET_ASSIGN_OR_RETURN(const GpuMemory device_ids, device_->Allocate(ids.size() * sizeof(int32_t), "ids"));
    RIVULET_RETURN_IF_ERROR(stream_->ToDevice(device_streams.data(), streams.data(), lanes_ * sizeof(StreamKey)));
    RIVULET_RETURN_IF_ERROR(stream_->ToDevice(device_steps.data(), steps.data(), lanes_ * sizeof(uint64_t)));
    RIVULET_RETURN_IF_ERROR(stream_->ToDevice(device_ids.data(), ids.data(), ids.size() * sizeof(int32_t)));
    const std::vector<GpuOperand> in = Operands(inputs_), out = Operands(outputs_), variables = Operands(variables_);
    GpuContext context;
    context.stream = stream_.get();
    context.lanes = {static_cast<int32_t>(ids.size()), reinterpret_cast<const int32_t*>(device_ids.data())};
    context.inputs = in;
    context.outputs = out;
    context.variables = variables;
    context.scratch = scratch.operand();
    context.draws = {reinterpret_cast<const StreamKey*>(device_streams.data()),
                     reinterpret_cast<const uint64_t*>(device_steps.data())};
    RIVULET_RETURN_IF_ERROR(kernel->Launch(context));
    RIVULET_RETURN_IF_ERROR(stream_->Wait());
    return CheckBeside(scratch, "scratch");
  }

  Status CheckBeside(const DeviceOperand& operand, std::string_view what) {
    std::vector<std::byte> all(operand.memory.size());
    RIVULET_RETURN_IF_ERROR(stream_->ToHost(all.data(), operand.memory.data(), all.size()));
    RIVULET_RETURN_IF_ERROR(stream_->Wait());
    size_t next = 0;
    for (size_t lane = 0; lane < lanes_; ++lane) {
      for (; next < operand.at(lane); ++next)
        if (all[next] != std::byte{0xFF}) return Internal("byte {} beside {} of lane {} was written", next, what, lane);
      next += operand.bytes;
    }
    return absl::OkStatus();
  }

  StatusOr<std::vector<LaneResults>> Collect() {
    for (const auto* group : {&inputs_, &outputs_, &variables_})
      for (const DeviceOperand& operand : *group) RIVULET_RETURN_IF_ERROR(CheckBeside(operand, "a tensor"));
    std::vector<LaneResults> results(lanes_);
    for (size_t lane = 0; lane < lanes_; ++lane) {
      for (size_t i = 0; i < outputs_.size(); ++i)
        results[lane].emplace_back(view_.outputs[i].dtype, view_.outputs[i].shape);
      for (const int variable : case_.variables) {
        const Tensor& value = values_[lane][static_cast<size_t>(variable)];
        results[lane].emplace_back(value.dtype(), value.shape());
      }
      for (size_t i = 0; i < results[lane].size(); ++i) {
        const DeviceOperand& operand = i < outputs_.size() ? outputs_[i] : variables_[i - outputs_.size()];
        RIVULET_RETURN_IF_ERROR(
            stream_->ToHost(results[lane][i].data(), operand.memory.data() + operand.at(lane), operand.bytes));
      }
    }
    RIVULET_RETURN_IF_ERROR(stream_->Wait());
    return results;
  }

  const OpCase& case_;
  const NodeView& view_;
  size_t lanes_;
  std::vector<std::vector<Tensor>> values_;
  std::shared_ptr<GpuDevice> device_;
  std::unique_ptr<GpuStream> stream_;
  std::vector<DeviceOperand> inputs_, outputs_, variables_;
};

template <typename T>
void ExpectClose(const Tensor& actual, const Tensor& expected, double tolerance, const std::string& what) {
  const std::span<const T> a = actual.flat<T>(), e = expected.flat<T>();
  for (size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]), y = static_cast<double>(e[i]);
    if (std::isnan(x) && std::isnan(y)) continue;
    if (x == y && std::signbit(x) == std::signbit(y)) continue;
    ASSERT_GT(tolerance, 0) << what << ": element " << i << " is " << x << ", and " << y << " on the CPU";
    ASSERT_LE(std::abs(x - y), tolerance * std::max(1.0, std::abs(y)))
        << what << ": element " << i << " is " << x << ", and " << y << " on the CPU";
  }
}

void ExpectNear(const Tensor& actual, const Tensor& expected, double tolerance, const std::string& what) {
  if (actual.dtype() == DType::kFloat32) return ExpectClose<float>(actual, expected, tolerance, what);
  if (actual.dtype() == DType::kFloat64) return ExpectClose<double>(actual, expected, tolerance, what);
  EXPECT_TRUE(actual.bytes() == 0 || std::memcmp(actual.data(), expected.data(), actual.bytes()) == 0) << what;
}

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.bytes() == b.bytes() && (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

void ExpectUntouched(const OpCase& c, const LaneResults& lane, size_t outputs, const std::string& what) {
  const std::vector<Tensor> values = c.inputs(2);
  for (size_t i = 0; i < outputs; ++i)
    for (size_t byte = 0; byte < lane[i].bytes(); ++byte)
      ASSERT_EQ(lane[i].data()[byte], std::byte{0xFF}) << what << ": output " << i << " of a lane that takes no part";
  for (size_t i = 0; i < c.variables.size(); ++i)
    EXPECT_TRUE(SameBits(lane[outputs + i], values[static_cast<size_t>(c.variables[i])]))
        << what << ": variable " << i << " of a lane that takes no part";
}

}  // namespace

void CheckOnGpu(const OpCase& c) {
  const std::string what = c.name.empty() ? c.op : fmt::format("{} ({})", c.op, c.name);
  SCOPED_TRACE(what);
  ASSERT_OK_AND_ASSIGN(const auto op, OneOp::Make(c));
  ASSERT_OK_AND_ASSIGN(const auto alone, DeviceRun::Run(c, op->view(), 1, {0}));
  ASSERT_OK_AND_ASSIGN(const auto some, DeviceRun::Run(c, op->view(), 3, {2, 0}));
  ASSERT_OK_AND_ASSIGN(const auto five, DeviceRun::Run(c, op->view(), 5, {0, 1, 2, 3, 4}));
  const size_t outputs = op->view().outputs.size();
  ExpectUntouched(c, some[1], outputs, what);
  for (const size_t lane : {0, 2}) {
    ASSERT_OK_AND_ASSIGN(const LaneResults expected, RunOnCpu(c, op->view(), static_cast<uint32_t>(lane) + 1));
    for (size_t i = 0; i < expected.size(); ++i) {
      if (Contains(c.unspecified, i)) continue;
      const std::string tensor = fmt::format("{}, result {} of lane {}", what, i, lane);
      ExpectNear(five[lane][i], expected[i], c.tolerance, tensor);
      EXPECT_TRUE(SameBits(some[lane][i], five[lane][i])) << tensor << " among three lanes and among five";
      EXPECT_TRUE(lane != 0 || SameBits(alone[lane][i], five[lane][i])) << tensor << " alone and among five";
    }
  }
}

Status PrepareOnGpu(const OpCase& c) {
  RIVULET_ASSIGN_OR_RETURN(const auto op, OneOp::Make(c));
  return PrepareFor(Device::kCuda, op->view()).status();
}

Tensor Floats(Shape shape, uint32_t seed) {
  Tensor tensor(DType::kFloat32, std::move(shape));
  const std::span<float> values = tensor.flat<float>();
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = UniformFloat(Philox4x32({{seed, 17}}, {static_cast<uint32_t>(i), 0, 0, 0})[0]) * 2 - 1;
  return tensor;
}
Tensor Doubles(Shape shape, uint32_t seed) {
  const Tensor floats = Floats(shape, seed);
  Tensor tensor(DType::kFloat64, std::move(shape));
  std::ranges::copy(floats.flat<float>(), tensor.flat<double>().begin());
  return tensor;
}
Tensor RoundedToTf32(Tensor floats) {
  for (float& value : floats.flat<float>()) {
    value = std::bit_cast<float>((std::bit_cast<uint32_t>(value) + 0x1000u) & 0xFFFFE000u);
  }
  return floats;
}

Tensor Integers(DType dtype, Shape shape, uint32_t seed, int64_t low, int64_t high) {
  const Tensor floats = Floats(shape, seed);
  Tensor tensor(dtype, std::move(shape));
  const auto fill = [&]<typename T>(std::span<T> values) {
    for (size_t i = 0; i < values.size(); ++i) {
      const double place = (static_cast<double>(floats.flat<float>()[i]) + 1) / 2;
      values[i] = static_cast<T>(low + static_cast<int64_t>(place * static_cast<double>(high - low)));
    }
  };
  if (dtype == DType::kInt32) fill(tensor.flat<int32_t>());
  if (dtype == DType::kInt64) fill(tensor.flat<int64_t>());
  if (dtype == DType::kUint8) fill(tensor.flat<uint8_t>());
  if (dtype == DType::kBool) fill(tensor.flat<bool>());
  return tensor;
}
Tensor Ints(std::vector<int32_t> values) {
  const auto count = static_cast<int64_t>(values.size());
  return Tensor::Of<int32_t>(Shape{count}, std::span<const int32_t>(values));
}
Tensor Int(int32_t value) { return Tensor::Scalar<int32_t>(value); }

}  // namespace rivulet::testing
