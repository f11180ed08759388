#include "client/training/device/step_check.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "client/training/device/value_difference.h"
#include "client/training/graph_numbers.h"
#include "client/training/task_streams.h"
#include "engine/compile/compile.h"
#include "engine/compile/compile_gpu.h"
#include "engine/gpu/gpu_alignment.h"
#include "engine/graph/op.h"
#include "engine/tensor/spec_bytes.h"

namespace rivulet {
namespace {

// A tensor of the step, with its node.
struct Seen {
  const Node* node;
  std::string tensor;
};

// Floats with a meaning of their own: values that an op keeps for its gradient are internal to its kernels.
bool IsCompared(const Node& node, size_t port) {
  const DType dtype = node.outputs()[port].dtype;
  const std::vector<ArgDef>& outputs = node.op().outputs;
  const std::string_view name = port < outputs.size() ? std::string_view(outputs[port].name) : "";
  if (name.starts_with("reserve_space") || name == "gates") return false;
  return dtype == DType::kFloat32 || dtype == DType::kFloat64;
}

// The step's tensors, inputs first. Handles of variables have their type, but are none.
StatusOr<std::vector<Seen>> TensorsOf(const PassPrograms::StepGraph& step) {
  std::vector<Node*> ends;
  for (const std::string& target : step.signature.targets) {
    if (Node* const node = step.graph.Find(target); node != nullptr) ends.push_back(node);
  }
  for (const std::string& fetch : step.signature.fetches) {
    RIVULET_ASSIGN_OR_RETURN(const Output output, step.graph.FindOutput(fetch));
    ends.push_back(output.node);
  }
  std::vector<Seen> seen;
  for (Node* const node : step.graph.TopologicalOrder(ends)) {
    if (node->type() == "VarHandleOp" || node->type() == "Placeholder" || node->type() == "Const") continue;
    for (size_t port = 0; port < node->outputs().size(); ++port) {
      if (IsCompared(*node, port)) seen.push_back({node, node->output(static_cast<int>(port)).name()});
    }
  }
  return seen;
}

// Memory before and after a run, on the host.
struct Memory {
  std::vector<AlignedBuffer> buffers, feeds, fetches;
};

std::vector<AlignedBuffer> Buffers(std::span<const TensorSpec> specs) {
  std::vector<AlignedBuffer> buffers;
  for (const TensorSpec& spec : specs) buffers.emplace_back(TensorBytes(spec));
  return buffers;
}

StatusOr<Memory> MemoryOf(const PassPrograms& programs, const Signature& signature, std::span<const TensorSpec> fetched,
                          int64_t batch_size, const LaneTask& lane) {
  const BufferTable& table = programs.buffers();
  Memory memory;
  for (int i = 0; i < table.size(); ++i) {
    AlignedBuffer& buffer = memory.buffers.emplace_back(table.bytes(i));
    std::memset(buffer.data(), 0, buffer.size());
    if (i == BufferTable::kParams || i == BufferTable::kBaseParams) {
      std::memcpy(buffer.data(), lane.base->arena().data(), lane.base->arena().size());
    }
  }
  for (size_t i = 0; i < lane.broadcasts.size(); ++i) {
    const auto to = static_cast<size_t>(table.broadcast(i));
    std::memcpy(memory.buffers[to].data(), lane.broadcasts[i]->data(), lane.broadcasts[i]->size());
  }
  if (!programs.plan().layout()->base_variables().empty()) {
    RIVULET_ASSIGN_OR_RETURN(const std::span<const Buffer> values, programs.plan().base_buffers());
    for (size_t i = 0; i < values.size(); ++i) {
      AlignedBuffer& to = memory.buffers[static_cast<size_t>(table.base(i))];
      std::memcpy(to.data(), values[i].data, to.size());
    }
  }
  Scalars declared;
  RIVULET_RETURN_IF_ERROR(
      GraphNumbers(programs.plan(), table, memory.buffers[BufferTable::kScalars].data()).Begin(*lane.task, declared));
  std::vector<uint32_t> first(static_cast<size_t>(batch_size));
  std::iota(first.begin(), first.end(), 0u);
  std::vector<TensorView> views;
  for (const FeedSpec& feed : signature.feeds) {
    memory.feeds.emplace_back(TensorBytes(feed.spec));
    views.push_back({memory.feeds.back().data(), feed.spec.dtype, feed.spec.shape});
  }
  RIVULET_RETURN_IF_ERROR(lane.examples->Decode(first, views));
  memory.fetches = Buffers(fetched);
  return memory;
}

Status RunOnHost(const Program& program, const StreamKey& stream, Memory& memory) {
  RIVULET_ASSIGN_OR_RETURN(const auto instance, program.Instantiate());
  AlignedBuffer arena(program.memory().arena_bytes);
  std::vector<Buffer> buffers;
  for (AlignedBuffer& buffer : memory.buffers) buffers.push_back({buffer.data()});
  std::vector<TensorView> feeds, fetches;
  for (size_t i = 0; i < memory.feeds.size(); ++i) {
    const TensorSpec& spec = program.signature().feeds[i].spec;
    feeds.push_back({memory.feeds[i].data(), spec.dtype, spec.shape});
  }
  for (size_t i = 0; i < memory.fetches.size(); ++i) {
    const TensorSpec& spec = program.fetch_specs()[i];
    fetches.push_back({memory.fetches[i].data(), spec.dtype, spec.shape});
  }
  const uint64_t step = 0;
  Bindings bindings;
  bindings.arena = arena.data();
  bindings.buffers = buffers;
  bindings.feeds = feeds;
  bindings.fetches = fetches;
  bindings.rng = {&stream, 1};
  bindings.step = {&step, 1};
  return instance->Run(bindings);
}

// All of a run's memory in one allocation, with each vector at a lane's alignment.
class DeviceRun {
 public:
  static Status Run(const GpuProgram& program, const std::shared_ptr<GpuDevice>& device, const StreamKey& stream_key,
                    Memory& memory) {
    DeviceRun run;
    RIVULET_ASSIGN_OR_RETURN(const auto instance, program.Instantiate(*device));
    RIVULET_ASSIGN_OR_RETURN(const auto stream, device->NewStream());
    size_t bytes = GpuAligned(program.arena_bytes()) + 2 * kGpuAlignment;
    for (const auto* vectors : {&memory.buffers, &memory.feeds, &memory.fetches}) {
      for (const AlignedBuffer& vector : *vectors) bytes += GpuAligned(vector.size());
    }
    RIVULET_ASSIGN_OR_RETURN(run.memory_, device->Allocate(bytes, "a step that is compared"));
    run.next_ = run.memory_.data();
    const uint64_t step = 0;
    GpuBindings bindings;
    bindings.arena = {run.Take(program.arena_bytes()), program.arena_bytes()};
    std::byte* const streams = run.Take(sizeof(stream_key));
    std::byte* const steps = run.Take(sizeof(step));
    bindings.draws = {reinterpret_cast<const StreamKey*>(streams), reinterpret_cast<const uint64_t*>(steps)};
    const std::vector<GpuOperand> buffers = run.Place(memory.buffers), feeds = run.Place(memory.feeds),
                                  fetches = run.Place(memory.fetches);
    bindings.buffers = buffers;
    bindings.feeds = feeds;
    bindings.fetches = fetches;
    const auto work = [&]() -> Status {
      RIVULET_RETURN_IF_ERROR(stream->ToDevice(streams, &stream_key, sizeof(stream_key)));
      RIVULET_RETURN_IF_ERROR(stream->ToDevice(steps, &step, sizeof(step)));
      RIVULET_RETURN_IF_ERROR(Bring(*stream, memory.buffers, buffers));
      RIVULET_RETURN_IF_ERROR(Bring(*stream, memory.feeds, feeds));
      RIVULET_RETURN_IF_ERROR(instance->Enqueue(*stream, bindings));
      RIVULET_RETURN_IF_ERROR(Fetch(*stream, buffers, memory.buffers));
      return Fetch(*stream, fetches, memory.fetches);
    };
    const Status status = work();
    const Status ran = stream->Wait();
    return status.ok() ? ran : status;
  }

 private:
  std::byte* Take(size_t bytes) {
    std::byte* const at = next_;
    next_ += GpuAligned(bytes);
    return at;
  }
  std::vector<GpuOperand> Place(const std::vector<AlignedBuffer>& vectors) {
    std::vector<GpuOperand> operands;
    for (const AlignedBuffer& vector : vectors) {
      operands.push_back({Take(vector.size()), GpuAligned(vector.size())});
    }
    return operands;
  }
  static Status Bring(GpuStream& stream, const std::vector<AlignedBuffer>& from, std::span<const GpuOperand> to) {
    for (size_t i = 0; i < from.size(); ++i) {
      RIVULET_RETURN_IF_ERROR(stream.ToDevice(to[i].data, from[i].data(), from[i].size()));
    }
    return absl::OkStatus();
  }
  static Status Fetch(GpuStream& stream, std::span<const GpuOperand> from, std::vector<AlignedBuffer>& to) {
    for (size_t i = 0; i < to.size(); ++i) {
      RIVULET_RETURN_IF_ERROR(stream.ToHost(to[i].data(), from[i].data, to[i].size()));
    }
    return absl::OkStatus();
  }

  GpuMemory memory_;
  std::byte* next_ = nullptr;
};

template <typename T>
ValueDifference DifferenceOf(const std::byte* values, const std::byte* expected, size_t bytes) {
  ValueDifference difference;
  for (size_t i = 0; i < bytes / sizeof(T); ++i) {
    difference.Take(static_cast<double>(reinterpret_cast<const T*>(values)[i]),
                    static_cast<double>(reinterpret_cast<const T*>(expected)[i]));
  }
  return difference;
}

Status Differs(const GpuDevice& device, const std::string& what, const ValueDifference& difference) {
  return Internal("GPU {} ({}) computes {} otherwise than the host: {}", device.number(), device.properties().name,
                  what, difference.ToString());
}

}  // namespace

Status CheckStep(PassPrograms& programs, const std::shared_ptr<GpuDevice>& device, size_t pass, int64_t batch_size,
                 const LaneTask& lane) {
  RIVULET_ASSIGN_OR_RETURN(PassPrograms::StepGraph step, programs.DescribeStep(lane.task->kind, pass, batch_size));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<Seen> seen, TensorsOf(step));
  step.signature.fetches.clear();
  for (const Seen& tensor : seen) step.signature.fetches.push_back(tensor.tensor);
  const CompileOptions options = programs.plan().compile_options();
  RIVULET_ASSIGN_OR_RETURN(const auto on_host, CompileProgram(step.graph, step.signature, options));
  RIVULET_ASSIGN_OR_RETURN(const auto on_device, CompileForGpu(step.graph, step.signature, options));
  RIVULET_ASSIGN_OR_RETURN(Memory host, MemoryOf(programs, step.signature, on_host->fetch_specs(), batch_size, lane));
  RIVULET_ASSIGN_OR_RETURN(Memory there,
                           MemoryOf(programs, step.signature, on_device->fetch_specs(), batch_size, lane));
  const StreamKey stream = StreamOf(*lane.task, Purpose::kGraph);
  RIVULET_RETURN_IF_ERROR(RunOnHost(*on_host, stream, host));
  RIVULET_RETURN_IF_ERROR(DeviceRun::Run(*on_device, device, stream, there));
  for (size_t i = 0; i < seen.size(); ++i) {
    const TensorSpec& spec = on_host->fetch_specs()[i];
    const auto compare = spec.dtype == DType::kFloat64 ? DifferenceOf<double> : DifferenceOf<float>;
    const ValueDifference difference = compare(there.fetches[i].data(), host.fetches[i].data(), TensorBytes(spec));
    if (difference.IsWithin(kTensorTolerance)) continue;
    return Differs(*device, fmt::format("{} '{}'", seen[i].node->type(), seen[i].tensor), difference);
  }
  for (const VariableBinding& variable : step.signature.variables) {
    if (variable.spec.dtype != DType::kFloat32 || variable.transient) continue;
    const auto buffer = static_cast<size_t>(variable.buffer);
    const ValueDifference difference =
        DifferenceOf<float>(there.buffers[buffer].data() + variable.offset,
                            host.buffers[buffer].data() + variable.offset, TensorBytes(variable.spec));
    if (difference.IsWithin(kTensorTolerance)) continue;
    return Differs(*device, fmt::format("the value of variable '{}' after a step", variable.name), difference);
  }
  return absl::OkStatus();
}

}  // namespace rivulet
