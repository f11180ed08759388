#include "engine/profile/instruction_costs.h"

#include <algorithm>

#include "engine/program/call_details.h"
#include "engine/program/structural_ops.h"
#include "engine/tensor/spec_bytes.h"

namespace rivulet {
namespace {

double BytesOf(const TensorSpec& spec) { return static_cast<double>(TensorBytes(spec)); }

std::string Described(const std::vector<TensorSpec>& specs) {
  std::string text;
  for (const TensorSpec& spec : specs)
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", Name(spec.dtype), spec.shape.ToString());
  return text;
}

// Bytes of the arena that are taken while each instruction runs.
std::vector<int64_t> LiveBytes(const MemoryPlan& memory, size_t instructions) {
  std::vector<int64_t> change(instructions + 1, 0);
  for (const PlannedTensor& tensor : memory.tensors) {
    if (tensor.continues_another) continue;
    change[static_cast<size_t>(std::max(tensor.first, 0))] += static_cast<int64_t>(tensor.bytes);
    change[std::min(static_cast<size_t>(tensor.last) + 1, change.size() - 1)] -= static_cast<int64_t>(tensor.bytes);
  }
  for (size_t i = 1; i < change.size(); ++i) change[i] += change[i - 1];
  return change;
}

}  // namespace

std::string ForwardNodeOf(std::string_view node) {
  constexpr std::string_view kGradients = "gradients/", kEnd = "_grad/";
  if (!node.starts_with(kGradients)) return std::string(node);
  node.remove_prefix(kGradients.size());
  const size_t end = node.find(kEnd);
  return std::string(end == std::string_view::npos ? node : node.substr(0, end));
}

std::string LayerOf(std::string_view node) {
  std::string name = ForwardNodeOf(node);
  const size_t slash = name.rfind('/');
  if (slash != std::string::npos && slash > 0) name.resize(slash);
  return name;
}

namespace {

std::vector<InstructionCost> CostsOfCalls(std::span<const Instruction> instructions, const MemoryPlan& memory,
                                          const std::vector<CallDetails>& details) {
  const std::vector<int64_t> live = LiveBytes(memory, instructions.size());
  std::vector<InstructionCost> costs;
  for (size_t i = 0; i < instructions.size(); ++i) {
    const Instruction& instruction = instructions[i];
    InstructionCost& cost = costs.emplace_back();
    cost.layer = LayerOf(instruction.node);
    cost.kernel = details[i].kernel;
    cost.flops = instruction.flops;
    cost.live_bytes = live[i];
    for (const TensorSpec& input : instruction.inputs) cost.bytes += BytesOf(input);
    for (const TensorSpec& output : instruction.outputs) cost.bytes += BytesOf(output);
    const double passes = OnlyReadsVariables(instruction.op) ? 1 : 2;
    cost.bytes += passes * static_cast<double>(details[i].variable_bytes);
    // A copy to a fetch or a variable lists what it reads alone.
    if (instruction.outputs.empty() && details[i].variable_bytes == 0) cost.bytes *= 2;
    cost.shapes = Described(instruction.inputs);
    if (!instruction.outputs.empty()) cost.shapes += " -> " + Described(instruction.outputs);
  }
  return costs;
}

}  // namespace

std::vector<InstructionCost> CostsOf(const Program& program) {
  return CostsOfCalls(program.instructions(), program.memory(), CallDetailsOf(program));
}
std::vector<InstructionCost> CostsOf(const GpuProgram& program) {
  return CostsOfCalls(program.instructions(), program.memory(), CallDetailsOf(program));
}

}  // namespace rivulet
