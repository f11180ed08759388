#include "engine/program/lowering.h"

#include <algorithm>
#include <cstring>

#include "engine/base/error_facts.h"
#include "engine/graph/function_call.h"
#include "engine/graph/op.h"
#include "engine/program/buffer_copies.h"
#include "engine/program/cast_fusion.h"
#include "engine/program/element_fusion.h"
#include "engine/program/gpu_copy.h"
#include "engine/program/memory_plan.h"
#include "engine/program/storage.h"
#include "engine/program/structural_ops.h"
#include "engine/program/update_fusion.h"
#include "engine/program/variable_hazards.h"
#include "engine/program/via_float32.h"
#include "engine/tensor/spec_bytes.h"

namespace rivulet {
namespace {

class CopyKernel final : public Kernel {
 public:
  explicit CopyKernel(size_t bytes) : bytes_(bytes) {}
  Status Run(const KernelContext& context) const override {
    // The value may be a view of an overlapping variable.
    if (bytes_ > 0) std::memmove(context.outputs[0], context.inputs[0], bytes_);
    return {};
  }

 private:
  size_t bytes_;
};

// A list has a shape, but memory only contains its handle.
TensorSpec Held(const TensorSpec& spec) { return spec.dtype == DType::kVariant ? TensorSpec{spec.dtype, {}} : spec; }

std::string Described(const Node& node) {
  const std::string line = node.source_line().empty() ? "" : fmt::format(" ({})", node.source_line());
  return fmt::format("{} '{}'{}", node.type(), node.name(), line);
}

// After a node has become a step, lowering does not use the graph: there are only storages (bytes that hold a value)
// and steps that read and write them. Positions in the schedule are the time. They, and not indices of steps, bound
// every lifetime, because steps are still removed, added and merged after lifetimes are known, and positions stay
// valid.
class Lowering {
 public:
  Lowering(const ConcreteGraph& graph, const Signature& signature, const CompileOptions& options, LowerFor purpose)
      : graph_(graph),
        signature_(signature),
        options_(options),
        for_lanes_(purpose == LowerFor::kLanes),
        storage_of_(static_cast<size_t>(graph.num_values()), -1),
        output_of_(static_cast<size_t>(graph.num_values())) {
    for (const auto& node : graph.graph().nodes())
      for (size_t port = 0; port < node->outputs().size(); ++port) {
        const Output output = node->output(static_cast<int>(port));
        output_of_[static_cast<size_t>(graph.value(output))] = output;
      }
  }

  // The order of stages matters. Hazards come first: they decide which values are in variables and need no arena. Then
  // casts, whose users read variables afterwards. Then update fusion, which recognises a gradient by its place and
  // removes it from memory. Buffers that start as copies follow, because they ask each update for a kernel that reads
  // elsewhere. Then reuse in place, which extends the remaining lifetimes, and last the arena, when lifetimes are
  // final. An earlier plan would reserve bytes for gradients that are never written.
  StatusOr<LoweredProgram> Run() {
    for (size_t position = 0; position < graph_.schedule().size(); ++position) {
      RIVULET_RETURN_IF_ERROR(AddNode(*graph_.schedule()[position], static_cast<int>(position)));
    }
    AddFetches();
    ResolveVariableHazards(storages_, steps_, readers_);
    readers_.resize(storages_.size(), nullptr);
    std::erase_if(steps_, [](const Step& step) { return step.removed; });
    // Copies of reads were appended; they belong at the position of their read, and a fetch after the node that
    // produces its value. The sort is stable, so that steps of one position keep their order of creation and the
    // program depends on the graph alone.
    std::stable_sort(steps_.begin(), steps_.end(), [](const Step& a, const Step& b) {
      const auto key = [](const Step& s) { return std::pair(s.position, s.kind == Step::Kind::kFetch); };
      return key(a) < key(b);
    });
    if (options_.passes.Runs("fuse_casts")) FuseCasts(storages_, steps_);
    if (options_.passes.Runs("fuse_updates"))
      RIVULET_RETURN_IF_ERROR(
          FuseGradientDescent(signature_.variables, options_.kernels, for_lanes_, storages_, steps_));
    RIVULET_RETURN_IF_ERROR(LowerBufferCopies(signature_.copies, storages_, steps_));
    if (options_.kernels.device == Device::kCuda && options_.passes.Runs("fuse_elements"))
      FuseElements(storages_, steps_);
    if (for_lanes_) DeferUpdates();
    ReuseInPlace();
    PlanArena();
    return Emit();
  }

 private:
  int NewStorage(Storage storage) {
    storages_.push_back(storage);
    readers_.push_back(nullptr);
    value_in_.push_back(-1);
    return static_cast<int>(storages_.size()) - 1;
  }
  Storage& storage(int index) { return storages_[static_cast<size_t>(index)]; }
  int Root(int index) {
    while (storage(index).same_as >= 0) index = storage(index).same_as;
    return index;
  }

  const VariableBinding& VariableOf(Output handle) const {
    return signature_.variables[static_cast<size_t>(graph_.variable(graph_.value(handle)))];
  }

  // The storage that holds `value`; feeds and constants get theirs at
  // first use. Most constants have no users by then, because these were
  // folded, and a program must not contain constants that no kernel reads.
  int StorageOf(int value) {
    int& known = storage_of_[static_cast<size_t>(value)];
    if (known >= 0) return known;
    Storage made;
    made.bytes = ValueBytes(graph_.spec(value));
    if (graph_.feed(value) >= 0) {
      made.kind = Storage::Kind::kFeed;
      made.index = graph_.feed(value);
    } else {
      const Tensor* constant = graph_.constant(value);
      RIVULET_CHECK(constant != nullptr, "a value is used before it is made");
      made.kind = Storage::Kind::kConstant;
      made.offset = constant_bytes_;
      constants_.push_back(constant);
      constant_bytes_ += RoundUp64(std::max<size_t>(made.bytes, 1));
    }
    known = NewStorage(made);
    value_in_.back() = value;
    return known;
  }
  // A use extends the lifetime of the storage, not of the value: views share their source's storage, so the last reader
  // of any of them keeps the bytes.
  int Use(int value, int position) {
    const int index = StorageOf(value);
    storage(index).last = std::max(storage(index).last, position);
    return index;
  }

  Status AddNode(const Node& node, int position) {
    if (graph_.IsConstant(node) || graph_.IsFed(node)) return {};
    const auto value_of = [&](int port) { return graph_.value({const_cast<Node*>(&node), port}); };
    // Structural nodes need no call; only computing nodes need kernels. A Reshape costs nothing in a run and does not
    // prevent reuse, because its result is the same storage.
    switch (StructuralKind(node.type())) {
      case StructuralOp::kConst:
      case StructuralOp::kPlaceholder:
      case StructuralOp::kVariable:
      case StructuralOp::kNoOp:
        return {};
      case StructuralOp::kView: {
        if (graph_.variable(value_of(0)) >= 0) return {};
        const int source = graph_.value(node.input(0));
        if (ValueBytes(graph_.spec(source)) != ValueBytes(graph_.spec(value_of(0)))) {
          return InvalidArgument("{}: {} cannot be seen as {}", Described(node), graph_.spec(source).shape.ToString(),
                                 graph_.spec(value_of(0)).shape.ToString());
        }
        storage_of_[static_cast<size_t>(value_of(0))] = StorageOf(source);
        return {};
      }
      // Each read is a separate storage, although several have the same memory:
      // two reads with a write between them are two values, and lifetimes decide
      // whether both can be views. ResolveVariableHazards makes the others copies.
      case StructuralOp::kRead: {
        const VariableBinding& variable = VariableOf(node.input(0));
        Storage read;
        read.kind = Storage::Kind::kVariable;
        read.index = variable.buffer;
        read.offset = variable.offset;
        read.bytes = ValueBytes(variable.spec);
        read.first = read.last = position;
        const int index = NewStorage(read);
        readers_[static_cast<size_t>(index)] = &node;
        value_in_[static_cast<size_t>(index)] = value_of(0);
        storage_of_[static_cast<size_t>(value_of(0))] = index;
        return {};
      }
      case StructuralOp::kAssign: {
        Step step;
        step.kind = Step::Kind::kAssign;
        step.node = &node;
        step.position = position;
        const VariableBinding& variable = VariableOf(node.input(0));
        step.variables = {PlaceOf(variable)};
        step.writes_variables = true;
        const int value = graph_.value(node.input(1));
        if (!(graph_.spec(value) == variable.spec)) {
          return InvalidArgument("{}: a value of {}{} cannot be assigned to variable '{}' of {}{}", Described(node),
                                 Name(graph_.spec(value).dtype), graph_.spec(value).shape.ToString(), variable.name,
                                 Name(variable.spec.dtype), variable.spec.shape.ToString());
        }
        step.inputs = {Use(value, position)};
        steps_.push_back(std::move(step));
        return {};
      }
      case StructuralOp::kNone:
        break;
    }
    return AddKernel(node, position);
  }

  Status AddKernel(const Node& node, int position) {
    ConcreteGraph::ViewStorage view;
    StatusOr<Prepared> prepared = PrepareKernel(graph_.View(node, view), options_.kernels);
    if (!prepared.ok()) {
      return WithFact(Annotate(prepared.status(), Described(node)), kOpFact,
                      fmt::format("{} '{}'", node.type(), node.name()));
    }
    Step step;
    step.node = &node;
    step.position = position;
    step.prepared = *std::move(prepared);
    for (const Output& input : node.inputs()) {
      const int value = graph_.value(input);
      if (graph_.variable(value) >= 0) {
        step.variables.push_back(PlaceOf(VariableOf(input)));
      } else {
        step.inputs.push_back(Use(value, position));
      }
    }
    // A handle does not imply a write, and a step that only reads must not count as a hazard: each false write would
    // cost a copy of a whole weight matrix.
    step.writes_variables = !step.variables.empty() && WritesVariables(node);
    for (size_t port = 0; port < node.outputs().size(); ++port) {
      const int value = graph_.value({const_cast<Node*>(&node), static_cast<int>(port)});
      Storage made;
      made.bytes = ValueBytes(graph_.spec(value));
      made.first = made.last = position;
      made.producer = static_cast<int>(steps_.size());
      step.outputs.push_back(NewStorage(made));
      value_in_.back() = value;
      // A fed output is still written, to memory without readers.
      if (graph_.feed(value) < 0) storage_of_[static_cast<size_t>(value)] = step.outputs.back();
    }
    // Scratch is a storage with a lifetime of one position, so that all calls share arena space, and no kernel
    // allocates.
    if (step.prepared.scratch_bytes > 0) {
      Storage scratch;
      scratch.bytes = step.prepared.scratch_bytes;
      scratch.first = scratch.last = position;
      step.scratch = NewStorage(scratch);
    }
    steps_.push_back(std::move(step));
    return {};
  }

  bool WritesVariables(const Node& node) const {
    if (!RunsFunctions(node.type())) return node.op().stateful && !OnlyReadsVariables(node.type());
    const std::vector<bool> writes =
        EffectsOfCall(node.type(), node.attrs(), node.inputs().size(), FunctionsOf(graph_.graph())).writes;
    return std::find(writes.begin(), writes.end(), true) != writes.end();
  }

  // A fetched tensor is copied to the caller right after its node, so that its lifetime can end there.
  void AddFetches() {
    std::vector<int> position_of;
    for (size_t position = 0; position < graph_.schedule().size(); ++position) {
      const size_t id = static_cast<size_t>(graph_.schedule()[position]->id());
      if (position_of.size() <= id) position_of.resize(id + 1, -1);
      position_of[id] = static_cast<int>(position);
    }
    for (size_t i = 0; i < graph_.fetches().size(); ++i) {
      const Output& output = graph_.fetches()[i];
      const int value = graph_.value(output);
      const size_t id = static_cast<size_t>(output.node->id());
      Step step;
      step.kind = Step::Kind::kFetch;
      step.node = output.node;
      step.fetch = static_cast<int>(i);
      step.position = id < position_of.size() && graph_.feed(value) < 0 ? position_of[id] : -1;
      step.inputs = {Use(value, step.position)};
      steps_.push_back(std::move(step));
    }
  }

  // Moves updates after the last position of the schedule, so that lifetimes include their reads. Until then no other
  // step may access the memory that they change, and variables that they read must not change.
  void DeferUpdates() {
    const auto end = static_cast<int>(graph_.schedule().size());
    for (size_t i = 0; i < steps_.size(); ++i) {
      Step& update = steps_[i];
      if (update.kind != Step::Kind::kKernel || !update.writes_variables || !update.outputs.empty()) continue;
      bool disturbed = false;
      for (size_t later = i + 1; later < steps_.size(); ++later) {
        disturbed = disturbed || (steps_[later].position < end && Disturb(update, steps_[later]));
      }
      if (disturbed) continue;
      update.position = end;
      for (const int input : update.inputs) storage(input).last = end;
      if (update.scratch >= 0) storage(update.scratch).first = storage(update.scratch).last = end;
    }
    std::stable_sort(steps_.begin(), steps_.end(),
                     [](const Step& a, const Step& b) { return a.position < b.position; });
  }

  // Whether the two steps cannot be exchanged.
  bool Disturb(const Step& update, const Step& later) {
    const auto touches = [&](const VariablePlace& place, bool writes) {
      const auto overlaps = [&](const VariablePlace& changed) { return changed.Overlaps(place); };
      if (std::ranges::any_of(update.variables, overlaps)) return true;
      return writes && std::ranges::any_of(update.inputs, [&](int input) {
               return storage(input).kind == Storage::Kind::kVariable && PlaceOf(storage(input)).Overlaps(place);
             });
    };
    for (const VariablePlace& place : later.variables) {
      if (touches(place, later.writes_variables)) return true;
    }
    for (const int input : later.inputs) {
      if (storage(input).kind == Storage::Kind::kVariable && touches(PlaceOf(storage(input)), false)) return true;
    }
    for (const int output : later.outputs) {
      if (storage(output).kind == Storage::Kind::kVariable && touches(PlaceOf(storage(output)), true)) return true;
    }
    return false;
  }

  // In execution order, so that a chain of elementwise ops collapses into one storage: the root's lifetime has grown
  // when the next link is checked. Reuse saves memory and, more importantly, memory traffic: a value that was just read
  // is in the cache when it is overwritten.
  void ReuseInPlace() {
    for (Step& step : steps_) {
      if (step.kind != Step::Kind::kKernel) continue;
      std::vector<int> taken;
      for (size_t port = 0; port < step.outputs.size(); ++port) {
        Storage& output = storage(step.outputs[port]);
        if (output.kind != Storage::Kind::kArena) continue;
        for (const auto& [in, out] : step.prepared.in_place) {
          if (out != static_cast<int>(port) || !MayReuse(step, in, out, taken)) continue;
          const int root = Root(step.inputs[static_cast<size_t>(in)]);
          taken.push_back(root);
          output.same_as = root;
          storage(root).last = std::max(storage(root).last, output.last);
          break;
        }
      }
    }
  }

  // The input's lifetime must end here, it must have the same size, and must not be reused for another output. A
  // storage that the step reads several times, as in x · x, is overwritten only if the kernel allows it for every one
  // of those inputs: an input read by columns would see what was already overwritten by rows.
  bool MayReuse(const Step& step, int in, int out, const std::vector<int>& taken) {
    const int root = Root(step.inputs[static_cast<size_t>(in)]);
    const Storage& input = storage(root);
    if (input.kind != Storage::Kind::kArena || input.last != step.position ||
        input.bytes != storage(step.outputs[static_cast<size_t>(out)]).bytes ||
        std::find(taken.begin(), taken.end(), root) != taken.end()) {
      return false;
    }
    for (size_t other = 0; other < step.inputs.size(); ++other) {
      if (Root(step.inputs[other]) != root) continue;
      const std::pair<int, int> pair{static_cast<int>(other), out};
      const auto& pairs = step.prepared.in_place;
      if (std::find(pairs.begin(), pairs.end(), pair) == pairs.end()) return false;
    }
    return true;
  }

  void PlanArena() {
    std::vector<Lifetime> lifetimes;
    std::vector<int> roots;
    for (int i = 0; i < static_cast<int>(storages_.size()); ++i) {
      const Storage& made = storage(i);
      if (made.kind != Storage::Kind::kArena) continue;
      // The size without sharing; the plan reports
      // it to show the effect of planning.
      memory_.unshared_bytes += std::max<size_t>(RoundUp64(made.bytes), 64);
      if (made.same_as >= 0) continue;
      lifetimes.push_back({made.bytes, made.first, made.last});
      roots.push_back(i);
    }
    memory_.arena_bytes = PlanOffsets(lifetimes);
    memory_.constant_bytes = constant_bytes_;
    for (size_t i = 0; i < roots.size(); ++i) storage(roots[i]).offset = lifetimes[i].offset;
  }

  Location At(int index) {
    const Storage& at = storage(Root(index));
    switch (at.kind) {
      case Storage::Kind::kArena:
        return {Location::Base::kArena, 0, at.offset};
      case Storage::Kind::kConstant:
        return {Location::Base::kConstants, 0, at.offset};
      case Storage::Kind::kFeed:
        return {Location::Base::kFeed, at.index, 0};
      case Storage::Kind::kVariable:
        return {Location::Base::kBuffer, at.index, at.offset};
    }
    return {};
  }
  static Location At(const VariablePlace& place) { return {Location::Base::kBuffer, place.buffer, place.offset}; }

  size_t ArenaBytes(int index) {
    const Storage& made = storage(index);
    return made.kind == Storage::Kind::kArena && made.same_as < 0 ? RoundUp64(made.bytes) : 0;
  }

  // Storages added by hazards and fusion are not values of the graph; observers see them as bytes.
  void AddInput(int index, Instruction& listing) {
    const int value = static_cast<size_t>(index) < value_in_.size() ? value_in_[static_cast<size_t>(index)] : -1;
    listing.input_names.push_back(value < 0 ? "" : output_of_[static_cast<size_t>(value)].name());
    if (value < 0) {
      listing.inputs.push_back({DType::kUint8, Shape({static_cast<int64_t>(storage(index).bytes)})});
    } else {
      listing.inputs.push_back(Held(graph_.spec(value)));
    }
  }

  std::unique_ptr<const Kernel> NewCopy(size_t bytes) const {
    if (options_.kernels.device == Device::kCuda) return NewGpuCopy(bytes);
    return std::make_unique<CopyKernel>(bytes);
  }

  StatusOr<LoweredProgram> Emit() {
    LoweredProgram program;
    for (Step& step : steps_) {
      Call call;
      call.node = step.node == nullptr ? "" : step.node->name();
      call.op = step.node == nullptr ? "" : std::string(step.node->type());
      for (const int input : step.inputs) call.inputs.push_back(At(input));
      for (const int output : step.outputs) call.outputs.push_back(At(output));
      Instruction listing;
      listing.node = call.node;
      listing.op = call.op;
      listing.implementation = "copy";
      if (step.node != nullptr) listing.source_line = step.node->source_line();
      for (const int input : step.inputs) AddInput(input, listing);
      for (const int made : step.outputs) listing.arena_bytes += ArenaBytes(made);
      if (step.scratch >= 0) listing.arena_bytes += ArenaBytes(step.scratch);
      switch (step.kind) {
        case Step::Kind::kKernel:
          for (const VariablePlace& variable : step.variables) {
            call.variables.push_back(At(variable));
            call.variable_bytes += variable.bytes;
          }
          call.kernel = std::move(step.prepared.kernel);
          call.stateful = step.node->op().stateful;
          call.nested = step.prepared.nested;
          for (const Output& input : step.node->inputs())
            if (graph_.variable(graph_.value(input)) >= 0) listing.variables.push_back(VariableOf(input).name);
          program.draws = program.draws || DrawsRandomNumbers(step.node->op());
          if (step.scratch >= 0) {
            call.has_scratch = true;
            call.scratch = At(step.scratch);
          }
          listing.implementation = step.prepared.implementation;
          for (size_t port = 0; port < step.outputs.size(); ++port) {
            Node* made_for = const_cast<Node*>(step.made_for == nullptr ? step.node : step.made_for);
            listing.outputs.push_back(Held(graph_.spec(graph_.value({made_for, static_cast<int>(port)}))));
          }
          listing.flops = step.prepared.flops;
          break;
        case Step::Kind::kAssign:
          call.outputs = {At(step.variables[0])};
          call.kernel = NewCopy(storage(step.inputs[0]).bytes);
          break;
        case Step::Kind::kReadCopy:
          call.kernel = NewCopy(storage(step.inputs[0]).bytes);
          break;
        case Step::Kind::kFetch:
          call.outputs = {{Location::Base::kFetch, step.fetch, 0}};
          call.kernel = NewCopy(storage(step.inputs[0]).bytes);
          listing.implementation = "fetch";
          break;
      }
      program.flops += listing.flops;
      program.instructions.push_back(std::move(listing));
      program.calls.push_back(std::move(call));
    }
    for (const VariableBinding& variable : signature_.variables) {
      const size_t buffer = static_cast<size_t>(variable.buffer);
      if (program.uses_buffer.size() <= buffer) program.uses_buffer.resize(buffer + 1, false);
    }
    for (const BufferCopy& copy : signature_.copies) {
      const size_t buffer = static_cast<size_t>(std::max(copy.to, copy.from));
      if (program.uses_buffer.size() <= buffer) program.uses_buffer.resize(buffer + 1, false);
    }
    // Only buffers that some call uses must be bound for a run, so that a program for evaluation does not need the
    // optimiser's slots.
    for (const Call& call : program.calls) {
      for (const auto* locations : {&call.inputs, &call.outputs, &call.variables}) {
        for (const Location& location : *locations) {
          if (location.base == Location::Base::kBuffer) program.uses_buffer[static_cast<size_t>(location.index)] = true;
        }
      }
    }
    ListArena();
    RIVULET_ASSIGN_OR_RETURN(program.constants, AlignedBuffer::Create(constant_bytes_));
    size_t offset = 0;
    for (const Tensor* constant : constants_) {
      if (constant->bytes() > 0) std::memcpy(program.constants.data() + offset, constant->data(), constant->bytes());
      offset += RoundUp64(std::max<size_t>(constant->bytes(), 1));
    }
    program.memory = memory_;
    return program;
  }

  // Converts lifetimes of storages from positions of the schedule to instructions. Observers and reports count in
  // instructions, and copies and fusions have changed their number.
  void ListArena() {
    const auto before = [](const Step& step, int position) { return step.position < position; };
    const auto first_at = [&](int position) {
      return static_cast<int>(std::lower_bound(steps_.begin(), steps_.end(), position, before) - steps_.begin());
    };
    const auto list = [&](int index, int instruction, int output) {
      const Storage& made = storage(index);
      if (made.kind != Storage::Kind::kArena) return;
      const Storage& root = storage(Root(index));
      memory_.tensors.push_back({instruction, output, made.bytes, root.offset,
                                 std::min(instruction, first_at(made.first)),
                                 std::max(instruction, first_at(made.last + 1) - 1), made.same_as >= 0});
    };
    for (size_t i = 0; i < steps_.size(); ++i) {
      const int instruction = static_cast<int>(i);
      for (size_t port = 0; port < steps_[i].outputs.size(); ++port)
        list(steps_[i].outputs[port], instruction, static_cast<int>(port));
      if (steps_[i].scratch >= 0) list(steps_[i].scratch, instruction, -1);
    }
  }

  const ConcreteGraph& graph_;
  const Signature& signature_;
  const CompileOptions& options_;
  const bool for_lanes_;
  std::vector<int> storage_of_;    // by value
  std::vector<Output> output_of_;  // by value
  std::vector<int> value_in_;      // by storage: the value for which it was made, or -1
  std::vector<Storage> storages_;
  std::vector<const Node*> readers_;  // by storage: the ReadVariableOp that created it
  std::vector<Step> steps_;
  std::vector<const Tensor*> constants_;
  size_t constant_bytes_ = 0;
  MemoryPlan memory_;
};

}  // namespace

StatusOr<LoweredProgram> Lower(const ConcreteGraph& graph, const Signature& signature, const CompileOptions& options,
                               LowerFor purpose) {
  return Lowering(graph, signature, options, purpose).Run();
}

}  // namespace rivulet
