#include "engine/program/update_fusion.h"

#include <algorithm>

namespace rivulet {
namespace {

class Fusion {
 public:
  Fusion(std::span<const VariableBinding> variables, const KernelPolicy& policy, std::vector<Storage>& storages,
         std::vector<Step>& steps)
      : variables_(variables), policy_(policy), storages_(storages), steps_(steps) {}

  Status Run() {
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (!IsFusable(steps_[i])) continue;
      const std::vector<Part> parts = FuseParts(i);
      if (parts.empty()) continue;
      RIVULET_ASSIGN_OR_RETURN(std::vector<Step> rest, Remainder(steps_[i], parts));
      steps_.erase(steps_.begin() + static_cast<std::ptrdiff_t>(i));
      const size_t added = rest.size();
      steps_.insert(steps_.begin() + static_cast<std::ptrdiff_t>(i), std::make_move_iterator(rest.begin()),
                    std::make_move_iterator(rest.end()));
      i += added;
      --i;
    }
    return absl::OkStatus();
  }

 private:
  struct Part {  // of the updated variable, in bytes from its start
    size_t begin, end;
  };

  const Storage& storage(int index) const { return storages_[static_cast<size_t>(index)]; }

  bool IsTransient(const VariablePlace& place) const {
    return std::all_of(variables_.begin(), variables_.end(), [&](const VariableBinding& variable) {
      return variable.transient || !PlaceOf(variable).Overlaps(place);
    });
  }

  bool IsFusable(const Step& update) const {
    if (update.kind != Step::Kind::kKernel || update.node->type() != "ResourceApplyGradientDescent") return false;
    if (update.variables[0].spec.dtype != DType::kFloat32) return false;
    const Storage& alpha = storage(update.inputs[0]);
    const Storage& delta = storage(update.inputs[1]);
    // Alpha must be there whenever the producers run.
    return (alpha.kind == Storage::Kind::kConstant || alpha.kind == Storage::Kind::kFeed) &&
           delta.kind == Storage::Kind::kVariable && delta.producer < 0 && IsTransient(PlaceOf(delta));
  }

  std::vector<Part> FuseParts(size_t update_index) {
    const Step& update = steps_[update_index];
    const VariablePlace delta = PlaceOf(storage(update.inputs[1]));
    std::vector<Part> parts;
    for (size_t i = 0; i < update_index; ++i) {
      Step& producer = steps_[i];
      if (producer.kind != Step::Kind::kKernel || producer.outputs.size() != 1 || !producer.variables.empty()) continue;
      const Storage& gradient = storage(producer.outputs[0]);
      if (gradient.kind != Storage::Kind::kVariable || gradient.index != delta.buffer ||
          gradient.offset < delta.offset || gradient.offset + gradient.bytes > delta.offset + delta.bytes) {
        continue;
      }
      VariablePlace target = update.variables[0];
      target.offset += gradient.offset - delta.offset;
      target.bytes = gradient.bytes;
      if (!MayMove(i, update_index, PlaceOf(gradient), target)) continue;
      std::unique_ptr<const Kernel> fused = producer.prepared.kernel->FusedGradientDescent();
      if (fused == nullptr) continue;
      producer.prepared.kernel = std::move(fused);
      producer.prepared.implementation += " + sgd";
      producer.prepared.in_place.clear();
      producer.prepared.flops += 2.0 * static_cast<double>(target.bytes / sizeof(float));
      producer.inputs.push_back(update.inputs[0]);
      producer.variables = {target};
      producer.outputs.clear();
      producer.writes_variables = true;
      parts.push_back({gradient.offset - delta.offset, gradient.offset - delta.offset + gradient.bytes});
    }
    std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.begin < b.begin; });
    return parts;
  }

  // Whether the update of `target` by `gradient` may happen in step `from` instead of step `to`: nobody else reads the
  // gradient, and nobody touches the target in between.
  bool MayMove(size_t from, size_t to, const VariablePlace& gradient, const VariablePlace& target) const {
    for (size_t i = 0; i < steps_.size(); ++i) {
      const Step& step = steps_[i];
      const bool between = i >= from && i < to;
      for (const VariablePlace& variable : step.variables) {
        if (i == to) continue;
        if (variable.Overlaps(gradient) || (between && variable.Overlaps(target))) return false;
      }
      for (size_t input = 0; input < step.inputs.size(); ++input) {
        if (i == to && input == 1) continue;  // the delta itself
        const Storage& read = storage(step.inputs[input]);
        if (read.kind != Storage::Kind::kVariable) continue;
        if (PlaceOf(read).Overlaps(gradient) || (between && PlaceOf(read).Overlaps(target))) return false;
      }
      for (const int output : step.outputs) {
        const Storage& written = storage(output);
        if (written.kind != Storage::Kind::kVariable || i == from) continue;
        if (PlaceOf(written).Overlaps(gradient) || (between && PlaceOf(written).Overlaps(target))) return false;
      }
    }
    return true;
  }

  // The update as steps over what no producer took over.
  StatusOr<std::vector<Step>> Remainder(const Step& update, const std::vector<Part>& parts) {
    std::vector<Step> rest;
    size_t begin = 0;
    for (size_t i = 0; i <= parts.size(); ++i) {
      const size_t end = i < parts.size() ? parts[i].begin : update.variables[0].bytes;
      if (end > begin) {
        RIVULET_ASSIGN_OR_RETURN(Step step, Stretch(update, begin, end));
        rest.push_back(std::move(step));
      }
      if (i < parts.size()) begin = parts[i].end;
    }
    return rest;
  }

  StatusOr<Step> Stretch(const Step& update, size_t begin, size_t end) {
    const Storage delta = storage(update.inputs[1]);
    Storage part = delta;
    part.offset += begin;
    part.bytes = end - begin;
    Step step;
    step.node = update.node;
    step.position = update.position;
    step.writes_variables = true;
    step.inputs = {update.inputs[0], static_cast<int>(storages_.size())};
    storages_.push_back(part);
    const TensorSpec spec{DType::kFloat32, Shape{static_cast<int64_t>((end - begin) / sizeof(float))}};
    step.variables = {{update.variables[0].buffer, update.variables[0].offset + begin, end - begin, spec}};
    RIVULET_ASSIGN_OR_RETURN(const PrepareFn* prepare,
                             KernelRegistry::Global().Find(update.node->type(), policy_.device, DType::kFloat32));
    const std::vector<TensorSpec> inputs = {{DType::kFloat32, Shape{}}, spec}, targets = {spec};
    const std::vector<const Tensor*> constants = {nullptr, nullptr};
    RIVULET_ASSIGN_OR_RETURN(step.prepared,
                             (*prepare)(NodeView{*update.node, inputs, {}, targets, constants, 0}, policy_));
    return step;
  }

  std::span<const VariableBinding> variables_;
  const KernelPolicy& policy_;
  std::vector<Storage>& storages_;
  std::vector<Step>& steps_;
};

}  // namespace

Status FuseGradientDescent(std::span<const VariableBinding> variables, const KernelPolicy& policy,
                           std::vector<Storage>& storages, std::vector<Step>& steps) {
  return Fusion(variables, policy, storages, steps).Run();
}

}  // namespace rivulet
