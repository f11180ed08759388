#include "engine/program/update_fusion.h"

#include <algorithm>
#include <map>
#include <set>

#include "engine/graph/op.h"
#include "engine/program/part_update.h"
#include "engine/program/place_index.h"

namespace rivulet {
namespace {

// The update of a dense layer is limited by memory bandwidth: for 1.6 million weights it would write
// the gradient, read it and the weights, and write the weights. In the kernel of the gradient's product
// the values are in registers when they are final, and the weights are read and written once. The pass
// works on storages instead of the graph, because a gradient's other readers can only be found by
// memory: gradients are slices of one flat buffer, which whole-vector ops read by another name. A model
// of thousands of layers has as many updates as steps, so no update may cost a search over all steps:
// steps keep their indices while updates are fused, removed ones are marked, and users of places and
// storages are looked up. These indexes give candidates; the steps, which change, decide.
class Fusion {
 public:
  Fusion(std::span<const VariableBinding> variables, const KernelPolicy& policy, bool apart,
         std::vector<Storage>& storages, std::vector<Step>& steps)
      : variables_(variables), policy_(policy), apart_(apart), storages_(storages), steps_(steps) {
    for (size_t i = 0; i < variables.size(); ++i) bound_.Add(PlaceOf(variables[i]), i);
  }

  Status Run() {
    if (!apart_) MoveRatesAhead();
    NoteUses();
    for (size_t i = 0; i < steps_.size(); ++i) {
      RIVULET_ASSIGN_OR_RETURN(const bool whole, FuseWhole(i));
      if (whole) {
        steps_[i].removed = true;
        continue;
      }
      if (!IsFusable(steps_[i])) continue;
      RIVULET_ASSIGN_OR_RETURN(const std::vector<Part> parts, FuseParts(i));
      if (parts.empty()) continue;
      RIVULET_ASSIGN_OR_RETURN(rest_[i], Remainder(steps_[i], parts));
      steps_[i].removed = true;
    }
    PutRestsInPlace();
    for (size_t i = 0; !apart_ && i < steps_.size(); ++i)
      // Only when all updates are fused: whether a step may move depends on the steps around it, which the loop above
      // still changes.
      if (steps_[i].descends && !steps_[i].removed) MergeInputGradient(i);
    std::erase_if(steps_, [](const Step& step) { return step.removed; });
    return absl::OkStatus();
  }

 private:
  struct Part {  // of the updated variable, in bytes from its start
    size_t begin, end;
  };

  // Steps before an update that are searched for its layer's input gradient.
  static constexpr size_t kNear = 64;
  // Size of gradients, in bytes, from which updating by parts pays off; smaller ones stay in the cache anyway.
  static constexpr size_t kFar = size_t{256} << 10;

  const Storage& storage(int index) const { return storages_[static_cast<size_t>(index)]; }

  void NoteUses() {
    used_by_.resize(storages_.size());
    for (size_t i = 0; i < steps_.size(); ++i) {
      const auto note = [&](int used) {
        used_by_[static_cast<size_t>(used)].push_back(i);
        if (storage(used).kind == Storage::Kind::kVariable) touched_by_.Add(PlaceOf(storage(used)), i);
      };
      std::ranges::for_each(steps_[i].inputs, note);
      std::ranges::for_each(steps_[i].outputs, note);
      for (const VariablePlace& variable : steps_[i].variables) touched_by_.Add(variable, i);
    }
  }

  // Whether `holds` is true for the step at index `i` or, if it is a partly fused update, for one of the steps that do
  // the rest.
  template <typename Holds>
  bool AnyStepAt(size_t i, const Holds& holds) const {
    if (!steps_[i].removed) return holds(steps_[i]);
    const auto rest = rest_.find(i);
    return rest != rest_.end() && std::ranges::any_of(rest->second, holds);
  }

  void PutRestsInPlace() {
    std::vector<Step> left;
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (!steps_[i].removed) left.push_back(std::move(steps_[i]));
      const auto rest = rest_.find(i);
      if (rest != rest_.end()) std::ranges::move(rest->second, std::back_inserter(left));
    }
    steps_ = std::move(left);
  }

  // Every binding that overlaps the place must be transient, not only the one through which it was found: the caller
  // may have bound the same memory under another name that is read after the run.
  bool IsTransient(const VariablePlace& place) const {
    return !bound_.AnyOf(place,
                         [&](size_t i) { return !variables_[i].transient && PlaceOf(variables_[i]).Overlaps(place); });
  }

  static bool IsPlainUpdate(const Step& step) {
    return step.kind == Step::Kind::kKernel && step.node->type() == "ResourceApplyGradientDescent" &&
           step.variables[0].spec.dtype == DType::kFloat32;
  }

  bool IsGiven(int index) const {
    return storage(index).kind == Storage::Kind::kConstant || storage(index).kind == Storage::Kind::kFeed;
  }

  // An optimiser's update with slots, which gradient kernels do not support, and which can run by parts. Not supported
  // for lanes.
  bool IsPartUpdate(const Step& step) const {
    return !apart_ && step.kind == Step::Kind::kKernel && step.prepared.kernel != nullptr && step.outputs.empty() &&
           step.scratch < 0 && dynamic_cast<const PartUpdate*>(step.prepared.kernel.get()) != nullptr &&
           std::ranges::all_of(step.variables,
                               [](const VariablePlace& place) { return place.spec.dtype == DType::kFloat32; });
  }

  // Index of the gradient among an update's inputs; the others are scalars.
  static size_t GradientInput(const Step& update) {
    const auto* const parts = dynamic_cast<const PartUpdate*>(update.prepared.kernel.get());
    return parts != nullptr ? parts->gradient_input() : 1;
  }

  static std::vector<int> Scalars(const Step& update) {
    std::vector<int> scalars = update.inputs;
    scalars.erase(scalars.begin() + static_cast<std::ptrdiff_t>(GradientInput(update)));
    return scalars;
  }

  // A float32 update whose scalars are available whenever the producers run.
  bool IsReadyUpdate(const Step& update) const {
    return (IsPlainUpdate(update) || IsPartUpdate(update)) &&
           std::ranges::all_of(Scalars(update), [&](int scalar) { return IsGiven(scalar) || ahead_.contains(scalar); });
  }

  // A schedule's rate is computed by kernels that follow the gradients in the graph,
  // but a gradient's product with a fused update needs it earlier. It depends on a
  // counter and constants, not on the pass, so it can be computed first.
  void MoveRatesAhead() {
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (!IsPlainUpdate(steps_[i]) && !IsPartUpdate(steps_[i])) continue;
      for (const int scalar : Scalars(steps_[i])) MoveAhead(scalar, i);
    }
  }

  // Moves the computation of `scalar`, an input of step `user`, before everything else, if that is possible.
  void MoveAhead(int scalar, size_t user) {
    if (IsGiven(scalar) || ahead_.contains(scalar)) return;
    const std::vector<size_t> makers = MakersOf(scalar, user);
    if (makers.empty()) return;
    const int position = steps_.front().position;
    for (size_t moved = 0; moved < makers.size(); ++moved) {
      const auto from = steps_.begin() + static_cast<std::ptrdiff_t>(makers[moved]);
      from->position = position;
      for (const int output : from->outputs) storages_[static_cast<size_t>(output)].first = position;
      if (from->scratch >= 0) storages_[static_cast<size_t>(from->scratch)].first = position;
      std::rotate(steps_.begin() + static_cast<std::ptrdiff_t>(moved), from, from + 1);
    }
    ahead_.insert(scalar);
  }

  // The steps before step `end` that compute `value`,
  // in order; empty if one of them cannot run first.
  std::vector<size_t> MakersOf(int value, size_t end) const {
    std::vector<size_t> makers;
    std::set<int> wanted = {value};
    for (size_t i = end; i-- > 0;) {
      const Step& step = steps_[i];
      const auto is_wanted = [&](int output) { return wanted.contains(output); };
      if (std::ranges::none_of(step.outputs, is_wanted)) continue;
      const bool computes = step.kind == Step::Kind::kKernel && step.variables.empty() && !step.node->op().stateful;
      if (!computes && step.kind != Step::Kind::kReadCopy) return {};
      for (const int output : step.outputs)
        if (storage(output).kind != Storage::Kind::kArena) return {};
      for (const int input : step.inputs) {
        if (storage(input).kind == Storage::Kind::kArena) {
          wanted.insert(input);
        } else if (storage(input).kind == Storage::Kind::kVariable && IsWrittenBefore(i, PlaceOf(storage(input)))) {
          return {};
        }
      }
      makers.insert(makers.begin(), i);
    }
    return makers;
  }

  bool IsWrittenBefore(size_t end, const VariablePlace& place) const {
    return std::any_of(steps_.begin(), steps_.begin() + static_cast<std::ptrdiff_t>(end), [&](const Step& step) {
      const auto overlaps = [&](const VariablePlace& written) { return written.Overlaps(place); };
      if (step.writes_variables && std::ranges::any_of(step.variables, overlaps)) return true;
      return std::ranges::any_of(step.outputs, [&](int output) {
        return storage(output).kind == Storage::Kind::kVariable && PlaceOf(storage(output)).Overlaps(place);
      });
    });
  }

  bool IsFusable(const Step& update) const {
    if (!IsReadyUpdate(update)) return false;
    const Storage& delta = storage(update.inputs[GradientInput(update)]);
    return delta.kind == Storage::Kind::kVariable && delta.producer < 0 && IsTransient(PlaceOf(delta));
  }

  // Makes step `from` update `targets`, the update's variables or a part of each, with the values of its former output.
  // Returns false if its kernel cannot.
  StatusOr<bool> TakeOver(size_t from, const Step& update, const std::vector<VariablePlace>& targets) {
    RIVULET_ASSIGN_OR_RETURN(const bool taken, IsPlainUpdate(update) ? Descend(steps_[from], update, targets[0])
                                                                     : UpdateParts(steps_[from], update, targets));
    if (!taken) return false;
    for (const int scalar : Scalars(update)) used_by_[static_cast<size_t>(scalar)].push_back(from);
    for (const VariablePlace& target : targets) touched_by_.Add(target, from);
    return true;
  }

  StatusOr<bool> UpdateParts(Step& producer, const Step& update, const std::vector<VariablePlace>& targets) {
    const auto* const parts = dynamic_cast<const PartOutput*>(producer.prepared.kernel.get());
    const size_t bytes = targets[0].bytes;
    if (parts == nullptr || parts->part_unit() == 0 || producer.scratch >= 0 || bytes < kFar) return false;
    RIVULET_ASSIGN_OR_RETURN(Prepared stretch, PreparedFor(update, bytes));
    Storage part;
    part.bytes = static_cast<size_t>(parts->part_unit()) * sizeof(float);
    part.first = part.last = producer.position;
    producer.scratch = static_cast<int>(storages_.size());
    storages_.push_back(part);
    producer.prepared.scratch_bytes = part.bytes;
    producer.prepared.kernel =
        std::make_unique<UpdateByParts>(std::move(producer.prepared.kernel), producer.inputs.size(),
                                        std::move(stretch.kernel), static_cast<int64_t>(bytes / sizeof(float)));
    producer.prepared.implementation += " + update";
    producer.prepared.in_place.clear();
    producer.prepared.flops += stretch.flops;
    for (const int scalar : Scalars(update)) producer.inputs.push_back(scalar);
    producer.variables = targets;
    producer.outputs.clear();
    producer.writes_variables = true;
    return true;
  }

  static StatusOr<bool> Descend(Step& producer, const Step& update, const VariablePlace& target) {
    std::unique_ptr<const Kernel> fused = producer.prepared.kernel->FusedGradientDescent();
    if (fused == nullptr) return false;
    producer.prepared.kernel = std::move(fused);
    producer.prepared.implementation += " + sgd";
    // The output that could have overwritten an input no longer exists.
    producer.prepared.in_place.clear();
    producer.prepared.flops += 2.0 * static_cast<double>(target.bytes / sizeof(float));
    producer.inputs.push_back(update.inputs[0]);
    producer.variables = {target};
    producer.outputs.clear();
    producer.writes_variables = true;
    producer.descends = true;
    return true;
  }

  // Fuses the update at `update_index` into the kernel that computes its whole delta, if it has no other readers.
  StatusOr<bool> FuseWhole(size_t update_index) {
    const Step& update = steps_[update_index];
    if (!IsReadyUpdate(update)) return false;
    const int delta = update.inputs[GradientInput(update)];
    if (storage(delta).kind != Storage::Kind::kArena) return false;
    size_t from = update_index;
    for (const size_t i : used_by_[static_cast<size_t>(delta)]) {
      const auto reads = [&](const Step& step) { return std::ranges::find(step.inputs, delta) != step.inputs.end(); };
      if (i != update_index && AnyStepAt(i, reads)) return false;
      const Step& step = steps_[i];
      if (i < update_index && step.kind == Step::Kind::kKernel && step.outputs == std::vector<int>{delta}) from = i;
    }
    if (from == update_index || !steps_[from].variables.empty()) return false;
    if (storage(delta).bytes != update.variables[0].bytes) return false;
    for (const VariablePlace& target : update.variables)
      if (!MayMove(from, update_index, VariablePlace(), target)) return false;
    RIVULET_ASSIGN_OR_RETURN(const bool taken, TakeOver(from, update, update.variables));
    if (!taken) return false;
    // The gradient stays in the list, so that indices do not move, but takes no memory.
    storages_[static_cast<size_t>(delta)].bytes = 0;
    return true;
  }

  // Step `update_index` updates the weights in the gradient's kernel: merges the layer's input gradient into it. The
  // product for the input gradient reads the same weights that the update rewrites. Done together, each block of
  // weights is loaded once: first for the input gradient, with the old values, then for the update. So the merged step
  // is the later of the two, if the input gradient is not needed before; otherwise the update moves to the input
  // gradient, if all its inputs are available there.
  void MergeInputGradient(size_t update_index) {
    Step& update = steps_[update_index];
    if (update.inputs.size() != 3 || !update.outputs.empty()) return;
    for (size_t i = update_index, seen = 0; i-- > 0 && seen < kNear;) {
      Step& gradient = steps_[i];
      if (gradient.removed) continue;
      ++seen;
      if (gradient.kind != Step::Kind::kKernel || gradient.inputs.size() != 2 || gradient.outputs.size() != 1 ||
          !gradient.variables.empty() || gradient.scratch >= 0 || gradient.inputs[0] != update.inputs[1]) {
        continue;
      }
      const Storage& weights = storage(gradient.inputs[1]);
      const int result = gradient.outputs[0];
      if (weights.kind != Storage::Kind::kVariable || !PlaceOf(weights).SameMemory(update.variables[0]) ||
          storage(result).kind != Storage::Kind::kArena) {
        continue;
      }
      bool wanted = false;
      for (size_t between = i + 1; between < update_index; ++between) {
        const Step& step = steps_[between];
        if (step.removed) continue;
        wanted = wanted || std::find(step.inputs.begin(), step.inputs.end(), result) != step.inputs.end();
      }
      if (wanted && !MayComeEarly(update_index, i)) return;
      std::unique_ptr<const Kernel> both = update.prepared.kernel->WithInputGradient(*gradient.prepared.kernel);
      if (both == nullptr) return;
      update.prepared.kernel = std::move(both);
      update.prepared.implementation += " + input gradient";
      update.prepared.flops += gradient.prepared.flops;
      update.outputs = {result};
      update.made_for = gradient.node;
      if (wanted) {
        update.position = gradient.position;
        gradient = std::move(update);
        update.removed = true;
      } else {
        storages_[static_cast<size_t>(result)].first = update.position;
        gradient.removed = true;
      }
      return;
    }
  }

  // Whether update `from` may move to step `to` before it, which reads the updated variable: its inputs are available
  // there, and no step in between accesses the variable.
  bool MayComeEarly(size_t from, size_t to) const {
    const Step& update = steps_[from];
    for (size_t i = to + 1; i < from; ++i) {
      if (steps_[i].removed) continue;
      for (const int output : steps_[i].outputs)
        if (std::ranges::find(update.inputs, output) != update.inputs.end()) return false;
      if (Touches(steps_[i], update.variables[0])) return false;
    }
    return true;
  }

  StatusOr<std::vector<Part>> FuseParts(size_t update_index) {
    const Step& update = steps_[update_index];
    const VariablePlace delta = PlaceOf(storage(update.inputs[GradientInput(update)]));
    std::set<size_t> before;  // in order: the first fusion may prevent the next
    touched_by_.AnyOf(delta, [&](size_t i) {
      if (i < update_index && !steps_[i].removed) before.insert(i);
      return false;
    });
    std::vector<Part> parts;
    for (const size_t i : before) {
      const Step& producer = steps_[i];
      // Only a step with one output and no variables: its kernel is replaced as a whole, and a second output or another
      // variable would be lost.
      if (producer.kind != Step::Kind::kKernel || producer.outputs.size() != 1 || !producer.variables.empty()) continue;
      const Storage& gradient = storage(producer.outputs[0]);
      if (gradient.kind != Storage::Kind::kVariable || gradient.index != delta.buffer ||
          gradient.offset < delta.offset || gradient.offset + gradient.bytes > delta.offset + delta.bytes) {
        continue;
      }
      const Storage part = gradient;
      const std::vector<VariablePlace> targets = PartOf(update.variables, part.offset - delta.offset, part.bytes);
      if (!std::ranges::all_of(
              targets, [&](const VariablePlace& target) { return MayMove(i, update_index, PlaceOf(part), target); })) {
        continue;
      }
      RIVULET_ASSIGN_OR_RETURN(const bool taken, TakeOver(i, update, targets));
      if (!taken) continue;
      parts.push_back({part.offset - delta.offset, part.offset - delta.offset + part.bytes});
    }
    std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.begin < b.begin; });
    return parts;
  }

  // Whether the update of `target` by `gradient` may happen in step `from` instead of step `to`: the gradient has no
  // other readers, and no step in between accesses the target. A gradient in a variable must not be read at any time,
  // also before and after. For other gradients (an empty place), only steps in between matter, and their accesses to
  // the weights.
  bool MayMove(size_t from, size_t to, const VariablePlace& gradient, const VariablePlace& target) const {
    const auto disturbs = [&](size_t i, const VariablePlace& place) {
      return AnyStepAt(i, [&](const Step& step) { return Touches(step, place, i == from, i == to); });
    };
    return !touched_by_.AnyOf(gradient, [&](size_t i) { return disturbs(i, gradient); }) &&
           !touched_by_.AnyOf(target, [&](size_t i) { return i >= from && i < to && disturbs(i, target); });
  }

  // Whether a step accesses `place`, ignoring the gradient that the `producer` writes, and the inputs and variables of
  // its `update`.
  bool Touches(const Step& step, const VariablePlace& place, bool producer = false, bool update = false) const {
    const auto overlaps = [&](int index) {
      return storage(index).kind == Storage::Kind::kVariable && PlaceOf(storage(index)).Overlaps(place);
    };
    for (const VariablePlace& variable : step.variables)
      if (!update && variable.Overlaps(place)) return true;
    for (size_t input = 0; input < step.inputs.size(); ++input)
      if (!(update && input == GradientInput(step)) && overlaps(step.inputs[input])) return true;
    return !producer && std::ranges::any_of(step.outputs, overlaps);
  }

  // The update as steps over the ranges that no producer has fused.
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
    const size_t gradient = GradientInput(update);
    Storage part = storage(update.inputs[gradient]);
    part.offset += begin;
    part.bytes = end - begin;
    Step step;
    step.node = update.node;
    step.position = update.position;
    step.writes_variables = true;
    step.inputs = update.inputs;
    step.inputs[gradient] = static_cast<int>(storages_.size());
    storages_.push_back(part);
    step.variables = PartOf(update.variables, begin, part.bytes);
    RIVULET_ASSIGN_OR_RETURN(step.prepared, PreparedFor(update, part.bytes));
    return step;
  }

  static std::vector<VariablePlace> PartOf(std::vector<VariablePlace> places, size_t begin, size_t bytes) {
    for (VariablePlace& place : places) {
      place.offset += begin;
      place.bytes = bytes;
      place.spec.shape = Shape{static_cast<int64_t>(bytes / sizeof(float))};
    }
    return places;
  }

  // The update's kernel for variables of this size.
  StatusOr<Prepared> PreparedFor(const Step& update, size_t bytes) const {
    const TensorSpec spec{DType::kFloat32, Shape{static_cast<int64_t>(bytes / sizeof(float))}};
    std::vector<TensorSpec> inputs(update.inputs.size(), {DType::kFloat32, Shape{}});
    inputs[GradientInput(update)] = spec;
    const std::vector<TensorSpec> targets(update.variables.size(), spec);
    const std::vector<const Tensor*> constants(inputs.size(), nullptr);
    RIVULET_ASSIGN_OR_RETURN(const PrepareFn* prepare,
                             KernelRegistry::Global().Find(update.node->type(), policy_.device, DType::kFloat32));
    return (*prepare)(NodeView{*update.node, inputs, {}, targets, constants, 0}, policy_);
  }

  std::span<const VariableBinding> variables_;
  const KernelPolicy& policy_;
  const bool apart_;
  std::set<int> ahead_;  // rates that are computed first
  PlaceIndex bound_;     // variables_
  // Candidates: steps that may use a storage or access a place,
  // and steps that do the rest of a partly fused update.
  std::vector<std::vector<size_t>> used_by_;
  PlaceIndex touched_by_;
  std::map<size_t, std::vector<Step>> rest_;
  std::vector<Storage>& storages_;
  std::vector<Step>& steps_;
};

}  // namespace

Status FuseGradientDescent(std::span<const VariableBinding> variables, const KernelPolicy& policy, bool apart,
                           std::vector<Storage>& storages, std::vector<Step>& steps) {
  return Fusion(variables, policy, apart, storages, steps).Run();
}

}  // namespace rivulet
