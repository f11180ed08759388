#include "engine/debug/recorder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/tensor/spec_bytes.h"

namespace rivulet {
namespace {

const VariableBinding* FindVariable(const Program& program, const std::string& name) {
  for (const VariableBinding& variable : program.signature().variables)
    if (variable.name == name) return &variable;
  return nullptr;
}

}  // namespace

bool IsCopy(const Instruction& instruction) {
  return instruction.implementation == "fetch" || instruction.implementation == "copy";
}

void Recorder::Clear() {
  records_.clear();
  by_name_.clear();
  open_.clear();
  kept_bytes_ = 0;
}

std::string Recorder::Qualified(std::string_view name) const {
  std::string qualified;
  for (size_t i = 0; i + 1 < open_.size(); ++i) qualified += open_[i].node + "/";
  return qualified + std::string(name);
}

const TensorRecord* Recorder::Find(std::string_view name) const {
  if (name.ends_with(":0")) name.remove_suffix(2);
  const auto found = by_name_.find(std::string(name));
  return found == by_name_.end() ? nullptr : &records_[found->second];
}

// Values are copied at once, since the arena reuses their memory. Beyond the limit only the statistics are kept, which
// answer most questions.
const TensorRecord* Recorder::Record(TensorRecord record, const std::byte* data) {
  const size_t bytes = TensorBytes(record.spec);
  const TensorView view{const_cast<std::byte*>(data), record.spec.dtype, record.spec.shape};
  record.statistics = StatisticsOf(view);
  record.order = static_cast<int64_t>(records_.size());
  TensorRecord* known = nullptr;
  if (const auto found = by_name_.find(record.name); found != by_name_.end()) {
    known = &records_[found->second];
    record.times = known->times + 1;
    record.order = known->order;
    if (!known->value.empty()) kept_bytes_ -= known->value.bytes();
  }
  if (kept_bytes_ + bytes <= options_.memory_bytes) {
    if (StatusOr<Tensor> value = Tensor::Create(record.spec.dtype, record.spec.shape); value.ok()) {
      record.value = *std::move(value);
      if (bytes > 0) std::memcpy(record.value.data(), data, bytes);
      kept_bytes_ += bytes;
    }
  }
  if (known != nullptr) {
    *known = std::move(record);
    return known;
  }
  by_name_.emplace(record.name, records_.size());
  records_.push_back(std::move(record));
  return &records_.back();
}

// Inputs that no call has made are recorded too, as feeds and variables are seen nowhere else. The clock starts after
// the copying.
void Recorder::Begin(const Program& program, int index, const KernelContext& context) {
  const Instruction& call = program.instructions()[static_cast<size_t>(index)];
  open_.push_back({call.node, Clock::now()});
  for (size_t i = 0; i < call.inputs.size() && i < context.inputs.size(); ++i) {
    if (call.input_names[i].empty() || SizeOf(call.inputs[i].dtype) == 0) continue;
    std::string name = Qualified(call.input_names[i]);
    if (name.ends_with(":0")) name.resize(name.size() - 2);
    // Inside of a loop an argument changes from turn to turn; elsewhere a tensor has one value in a step.
    if (open_.size() == 1 && by_name_.contains(name)) continue;
    if (const TensorRecord* known = Find(name); known != nullptr && known->source == TensorRecord::Source::kOutput)
      continue;
    Record({name, Qualified(call.node), call.op, TensorRecord::Source::kInput, call.inputs[i]}, context.inputs[i]);
  }
  open_.back().begun = Clock::now();
}

std::vector<const TensorRecord*> Recorder::End(const Program& program, int index, const KernelContext& context) {
  const Clock::time_point ended = Clock::now();
  const Instruction& call = program.instructions()[static_cast<size_t>(index)];
  std::vector<const TensorRecord*> made;
  if (open_.empty()) return made;
  const double seconds = std::chrono::duration<double>(ended - open_.back().begun).count();
  const std::string node = Qualified(call.node);
  for (size_t port = 0; port < call.outputs.size() && port < context.outputs.size(); ++port) {
    if (SizeOf(call.outputs[port].dtype) == 0) continue;
    made.push_back(Record({port == 0 ? node : fmt::format("{}:{}", node, port),
                           node,
                           call.op,
                           TensorRecord::Source::kOutput,
                           call.outputs[port],
                           {},
                           {},
                           0,
                           1,
                           seconds},
                          context.outputs[port]));
  }
  // An input without a name was added by a fusion: such a call updates the part of its variable that no other call has.
  const bool whole = std::ranges::find(call.input_names, "") == call.input_names.end();
  for (size_t i = 0; whole && i < call.variables.size() && i < context.variables.size(); ++i) {
    const VariableBinding* variable = FindVariable(program, call.variables[i]);
    if (variable == nullptr) continue;
    made.push_back(
        Record({variable->name, node, call.op, TensorRecord::Source::kVariable, variable->spec, {}, {}, 0, 1, seconds},
               context.variables[i]));
  }
  open_.pop_back();
  return made;
}

void Recorder::Failed() {
  if (!open_.empty()) open_.pop_back();
}

}  // namespace rivulet
