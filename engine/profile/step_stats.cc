#include "engine/profile/step_stats.h"

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "engine/base/join.h"
#include "engine/graphdef/proto_conversion.h"
#include "engine/profile/instruction_costs.h"
#include "engine/tensor/spec_bytes.h"
#include "proto/graph/step_stats.pb.h"

namespace rivulet {
namespace {

constexpr char kAllocator[] = "arena";

proto::DeviceStepStats& DeviceOf(std::string_view device, proto::StepStats& stats) {
  for (proto::DeviceStepStats& known : *stats.mutable_dev_stats())
    if (known.device() == device) return known;
  proto::DeviceStepStats& made = *stats.add_dev_stats();
  made.set_device(std::string(device));
  return made;
}

// The offset from ProfileNanos to nanoseconds since 1970.
int64_t SinceEpoch() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count() - ProfileNanos();
}

}  // namespace

void AppendStepStats(std::span<const InstructionSpan> spans, const StepStatsSource& source, proto::StepStats& stats) {
  proto::DeviceStepStats& device = DeviceOf(source.device, stats);
  if (!source.thread_name.empty()) (*device.mutable_thread_names())[source.thread] = std::string(source.thread_name);
  const int64_t since_epoch = SinceEpoch();
  std::map<const Program*, std::vector<InstructionCost>> costs_of;
  std::vector<std::string> names(spans.size());
  for (size_t i = 0; i < spans.size(); ++i) {
    const InstructionSpan& span = spans[i];
    const auto [known, fresh] = costs_of.try_emplace(span.program);
    if (fresh) known->second = CostsOf(*span.program);
    const Instruction& instruction = span.program->instructions()[static_cast<size_t>(span.instruction)];
    const InstructionCost& cost = known->second[static_cast<size_t>(span.instruction)];
    // As TensorFlow calls what hands a result to the caller, so that it is not taken for the node itself.
    const std::string name = instruction.implementation == "fetch" ? "_retval_" + instruction.node : instruction.node;
    names[i] = span.parent < 0 ? name : names[static_cast<size_t>(span.parent)] + "/" + name;
    if (span.end == 0) continue;
    proto::NodeExecStats& node = *device.add_node_stats();
    node.set_node_name(names[i]);
    const int64_t begin = span.begin + since_epoch, length = span.end - span.begin;
    node.set_all_start_micros(begin / 1000);
    node.set_all_start_nanos(begin);
    node.set_op_end_rel_micros(length / 1000);
    node.set_op_end_rel_nanos(length);
    node.set_all_end_rel_micros(length / 1000);
    node.set_all_end_rel_nanos(length);
    node.set_scheduled_micros(begin / 1000);
    node.set_scheduled_nanos(begin);
    node.set_thread_id(source.thread);
    node.set_timeline_label(fmt::format("{} = {}({}) {}", names[i], instruction.op, Join(instruction.input_names, ", "),
                                        instruction.implementation));
    int64_t output_bytes = 0;
    for (size_t port = 0; port < instruction.outputs.size(); ++port) {
      const TensorSpec& spec = instruction.outputs[port];
      const int64_t bytes = static_cast<int64_t>(TensorBytes(spec));
      output_bytes += bytes;
      proto::NodeOutput& output = *node.add_output();
      output.set_slot(static_cast<int32_t>(port));
      proto::TensorDescription& tensor = *output.mutable_tensor_description();
      tensor.set_dtype(static_cast<proto::DataType>(spec.dtype));
      ToProto(spec.shape, tensor.mutable_shape());
      proto::AllocationDescription& allocation = *tensor.mutable_allocation_description();
      allocation.set_requested_bytes(bytes);
      allocation.set_allocated_bytes(bytes);
      allocation.set_allocator_name(kAllocator);
    }
    proto::AllocatorMemoryUsed& memory = *node.add_memory();
    memory.set_allocator_name(kAllocator);
    memory.set_total_bytes(static_cast<int64_t>(instruction.arena_bytes));
    memory.set_peak_bytes(cost.live_bytes);
    memory.set_live_bytes(output_bytes);
    memory.set_allocator_bytes_in_use(cost.live_bytes);
  }
}

}  // namespace rivulet
