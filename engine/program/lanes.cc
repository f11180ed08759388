#include "engine/program/lanes.h"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/program/lane_kernel.h"
#include "engine/program/lowering.h"
#include "engine/tensor/spec_bytes.h"

namespace rivulet {
namespace {

// Address of an operand of lane 0, and the distance to the next lane. In the arena every tensor has `lanes` times the
// space of the plan for one lane, at `lanes` times its offset.
struct LaneOperand {
  Location at;
  size_t stride = 0;  // bytes; 0: shared by all lanes
};

struct LaneCall {
  size_t call = 0;  // in the lowered program
  bool differs = false;
  std::vector<bool> input_differs;
  std::vector<LaneOperand> inputs, outputs;
};

struct UpdateCall {
  LaneCall call;
  const PartKernel* kernel = nullptr;  // null: cannot be computed by parts
};

struct LanePlan {
  std::vector<LaneCall> calls;  // in addition to the updates
  std::vector<UpdateCall> update_calls;
  std::vector<LaneUpdate> updates;  // of update_calls
};

// Separates per-lane memory from shared memory: values that depend on feeds differ by lane.
class Planning {
 public:
  Planning(const Signature& signature, std::span<const TensorSpec> fetch_specs, const LoweredProgram& lowered)
      : signature_(signature), fetch_specs_(fetch_specs), lowered_(lowered) {}

  StatusOr<LanePlan> Run() {
    for (const PlannedTensor& tensor : lowered_.memory.tensors) {
      if (tensor.output >= 0) bytes_[{tensor.instruction, tensor.output}] = tensor.bytes;
    }
    for (size_t i = 0; i < lowered_.calls.size(); ++i) RIVULET_RETURN_IF_ERROR(Add(i));
    // Calls before the updates must not read memory that updates or copies write: it is not written yet.
    for (const LaneCall& call : plan_.calls) {
      for (const LaneOperand& input : call.inputs) {
        if (input.at.base == Location::Base::kBuffer && Written(input.at.index)) return Refused(call.call);
      }
    }
    std::vector<size_t> order(plan_.updates.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::sort(order, {}, [&](size_t i) { return std::pair(plan_.updates[i].buffer, plan_.updates[i].offset); });
    LanePlan sorted;
    sorted.calls = std::move(plan_.calls);
    for (const size_t i : order) {
      sorted.updates.push_back(plan_.updates[i]);
      sorted.update_calls.push_back(std::move(plan_.update_calls[i]));
    }
    return sorted;
  }

 private:
  Status Refused(size_t call) const {
    return Unimplemented("the program of node '{}' cannot be run by several lanes at once", lowered_.calls[call].node);
  }

  bool Written(int buffer) const { return std::ranges::find(written_, buffer) != written_.end(); }

  Status Add(size_t i) {
    const Call& call = lowered_.calls[i];
    if (call.nested) return Refused(i);
    // The unchanged rest of a copied buffer: a lane has no copy of it.
    if (call.node.empty()) {
      for (const Location& output : call.outputs) {
        if (output.base != Location::Base::kBuffer) return Refused(i);
        written_.push_back(output.index);
      }
      return absl::OkStatus();
    }
    LaneCall made{.call = i, .differs = false, .input_differs = {}, .inputs = {}, .outputs = {}};
    for (const Location& input : call.inputs) {
      const size_t stride = StrideOf(input);
      made.inputs.push_back({input, stride});
      made.input_differs.push_back(stride > 0);
      made.differs = made.differs || stride > 0;
    }
    if (!call.variables.empty()) return AddUpdate(std::move(made));
    if (!plan_.updates.empty() || call.stateful) return Refused(i);
    for (const Location& output : call.outputs) made.differs = made.differs || output.base == Location::Base::kFetch;
    for (size_t port = 0; port < call.outputs.size(); ++port) {
      const Location& output = call.outputs[port];
      size_t stride = 0;
      if (output.base == Location::Base::kFetch) {
        stride = TensorBytes(fetch_specs_[static_cast<size_t>(output.index)]);
      } else if (output.base == Location::Base::kArena) {
        // If a result were written over a shared input, the first lane's result would become the others' input.
        const auto replaced = [&](const LaneOperand& input) {
          return input.at.base == Location::Base::kArena && input.stride == 0 && input.at.offset == output.offset;
        };
        if (made.differs && std::ranges::any_of(made.inputs, replaced)) return Refused(i);
        const size_t bytes = bytes_.at({static_cast<int>(i), static_cast<int>(port)});
        stride = made.differs ? bytes : 0;
        strides_[output.offset] = stride;
      } else {
        return Refused(i);
      }
      made.outputs.push_back({output, stride});
    }
    plan_.calls.push_back(std::move(made));
    return absl::OkStatus();
  }

  Status AddUpdate(LaneCall made) {
    const Call& call = lowered_.calls[made.call];
    if (!call.outputs.empty() || call.variables.size() != 1) return Refused(made.call);
    const Location& target = call.variables[0];
    LaneUpdate update{.buffer = target.index,
                      .offset = target.offset,
                      .elements = static_cast<int64_t>(call.variable_bytes / sizeof(float)),
                      .unit = 0};
    const auto* const kernel = dynamic_cast<const PartKernel*>(call.kernel.get());
    // It must compute from other memory, or it would read values that do not exist.
    const bool makes = kernel != nullptr && !call.inputs.empty() &&
                       call.inputs.back().base == Location::Base::kBuffer && !call.has_scratch;
    if (makes) {
      update.unit = kernel->part_unit();
    } else if (call.op != "ResourceApplyGradientDescent") {
      return Refused(made.call);
    }
    written_.push_back(update.buffer);
    plan_.updates.push_back(update);
    plan_.update_calls.push_back({std::move(made), makes ? kernel : nullptr});
    return absl::OkStatus();
  }

  size_t StrideOf(const Location& at) const {
    if (at.base == Location::Base::kFeed) {
      return TensorBytes(signature_.feeds[static_cast<size_t>(at.index)].spec);
    }
    if (at.base != Location::Base::kArena) return 0;
    const auto found = strides_.find(at.offset);
    return found == strides_.end() ? 0 : found->second;
  }

  const Signature& signature_;
  const std::span<const TensorSpec> fetch_specs_;
  const LoweredProgram& lowered_;
  std::map<std::pair<int, int>, size_t> bytes_;  // by instruction and output
  std::map<size_t, size_t> strides_;             // by offset in the arena, of the latest value there
  std::vector<int> written_;                     // buffers
  LanePlan plan_;
};

class LaneTable final : public LaneInstance {
 public:
  LaneTable(std::shared_ptr<const LaneProgram> program, const LoweredProgram& lowered, const LanePlan& plan, int lanes)
      : program_(std::move(program)), lowered_(lowered), plan_(plan), lanes_(lanes) {
    for (const LaneCall& call : plan_.calls) {
      const Kernel& kernel = *lowered_.calls[call.call].kernel;
      const auto* const rows = dynamic_cast<const LaneKernel*>(&kernel);
      std::unique_ptr<const Kernel> wide;
      if (call.differs && rows != nullptr) wide = rows->ForLanes(lanes, call.input_differs);
      Ready ready;
      ready.times = wide == nullptr && call.differs ? lanes : 1;
      ready.kernel = wide == nullptr ? &kernel : wide.get();
      ready.state = ready.kernel->NewState();
      if (wide != nullptr) wide_.push_back(std::move(wide));
      ready_.push_back(std::move(ready));
    }
  }

  Status Run(const Bindings& bindings, const CancellationToken& cancel) override {
    RIVULET_RETURN_IF_ERROR(Bind(bindings));
    for (size_t i = 0; i < ready_.size(); ++i) {
      if (cancel.cancelled()) return Cancelled("the run was cancelled before node '{}'", CallOf(i).node);
      const LaneCall& call = plan_.calls[i];
      KernelContext context;
      context.state = ready_[i].state.get();
      if (CallOf(i).has_scratch) context.scratch = Address({CallOf(i).scratch, 0}, 0);
      for (int lane = 0; lane < ready_[i].times; ++lane) {
        Resolve(call.inputs, lane, inputs_);
        Resolve(call.outputs, lane, outputs_);
        context.inputs = inputs_;
        context.outputs = outputs_;
        RIVULET_RETURN_IF_ERROR(ready_[i].kernel->Run(context));
      }
    }
    // Looked up once, because a part takes only microseconds and each is requested separately.
    const size_t updates = plan_.update_calls.size();
    update_inputs_.resize(updates * static_cast<size_t>(lanes_));
    for (size_t i = 0; i < update_inputs_.size(); ++i) {
      Resolve(plan_.update_calls[i % updates].call.inputs, static_cast<int>(i / updates), update_inputs_[i]);
    }
    return absl::OkStatus();
  }

  void Make(int lane, size_t update, int64_t first, int64_t count, float* to) const override {
    KernelContext context;
    context.inputs = update_inputs_[static_cast<size_t>(lane) * plan_.update_calls.size() + update];
    plan_.update_calls[update].kernel->RunPart(context, first, count, to);
  }

 private:
  struct Ready {
    const Kernel* kernel = nullptr;
    std::unique_ptr<KernelState> state;
    int times = 1;
  };

  const Call& CallOf(size_t i) const { return lowered_.calls[plan_.calls[i].call]; }

  Status Bind(const Bindings& bindings) {
    const Signature& signature = program_->signature();
    if (bindings.lanes != lanes_) return InvalidArgument("the instance runs {} lanes, not {}", lanes_, bindings.lanes);
    if (bindings.feeds.size() != signature.feeds.size() || bindings.fetches.size() != signature.fetches.size()) {
      return InvalidArgument("the program takes {} feeds and {} fetches, not {} and {}", signature.feeds.size(),
                             signature.fetches.size(), bindings.feeds.size(), bindings.fetches.size());
    }
    if (lowered_.memory.arena_bytes > 0 && bindings.arena == nullptr) {
      return InvalidArgument("the program needs an arena of {} bytes a lane", lowered_.memory.arena_bytes);
    }
    arena_ = bindings.arena;
    feeds_.clear();
    fetches_.clear();
    buffers_.clear();
    for (const TensorView& feed : bindings.feeds) feeds_.push_back(feed.data);
    for (const TensorView& fetch : bindings.fetches) fetches_.push_back(fetch.data);
    for (const Buffer& buffer : bindings.buffers) buffers_.push_back(buffer.data);
    const auto bound = [&](const LaneCall& call) {
      return std::ranges::all_of(call.inputs, [&](const LaneOperand& input) {
        const auto index = static_cast<size_t>(input.at.index);
        return input.at.base != Location::Base::kBuffer || (index < buffers_.size() && buffers_[index] != nullptr);
      });
    };
    if (!std::ranges::all_of(plan_.calls, bound) ||
        !std::ranges::all_of(plan_.update_calls, [&](const UpdateCall& update) { return bound(update.call); })) {
      return InvalidArgument("a buffer of the program's variables is not bound");
    }
    return absl::OkStatus();
  }

  std::byte* Address(const LaneOperand& operand, int lane) const {
    const auto index = static_cast<size_t>(operand.at.index);
    const size_t offset = operand.at.offset, behind = static_cast<size_t>(lane) * operand.stride;
    switch (operand.at.base) {
      case Location::Base::kArena:
        return arena_ + offset * static_cast<size_t>(lanes_) + behind;
      case Location::Base::kConstants:
        // Kernels only read their inputs.
        return const_cast<std::byte*>(lowered_.constants.data()) + offset;
      case Location::Base::kFeed:
        return feeds_[index] + offset + behind;
      case Location::Base::kFetch:
        return fetches_[index] + offset + behind;
      case Location::Base::kBuffer:
        return buffers_[index] + offset;
    }
    return nullptr;
  }

  void Resolve(const std::vector<LaneOperand>& operands, int lane, std::vector<std::byte*>& addresses) const {
    addresses.clear();
    for (const LaneOperand& operand : operands) addresses.push_back(Address(operand, lane));
  }

  const std::shared_ptr<const LaneProgram> program_;
  const LoweredProgram& lowered_;
  const LanePlan& plan_;
  const int lanes_;
  std::vector<Ready> ready_;  // by call
  std::vector<std::unique_ptr<const Kernel>> wide_;
  std::byte* arena_ = nullptr;
  std::vector<std::byte*> feeds_, fetches_, buffers_;
  std::vector<std::byte*> inputs_, outputs_;            // of one call
  std::vector<std::vector<std::byte*>> update_inputs_;  // by lane and update
};

class LoweredLanes final : public LaneProgram {
 public:
  LoweredLanes(Signature signature, std::vector<TensorSpec> fetch_specs, LoweredProgram lowered, LanePlan plan)
      : signature_(std::move(signature)),
        fetch_specs_(std::move(fetch_specs)),
        lowered_(std::move(lowered)),
        plan_(std::move(plan)) {}
  const Signature& signature() const override { return signature_; }
  std::span<const TensorSpec> fetch_specs() const override { return fetch_specs_; }
  size_t arena_bytes() const override { return lowered_.memory.arena_bytes; }
  std::span<const LaneUpdate> updates() const override { return plan_.updates; }
  std::unique_ptr<LaneInstance> Instantiate(int lanes) const override {
    return std::make_unique<LaneTable>(shared_from_this(), lowered_, plan_, lanes);
  }

 private:
  const Signature signature_;
  const std::vector<TensorSpec> fetch_specs_;
  const LoweredProgram lowered_;
  const LanePlan plan_;
};

}  // namespace

StatusOr<std::shared_ptr<const LaneProgram>> NewLaneProgram(Signature signature, std::vector<TensorSpec> fetch_specs,
                                                            LoweredProgram lowered) {
  RIVULET_ASSIGN_OR_RETURN(LanePlan plan, Planning(signature, fetch_specs, lowered).Run());
  return std::make_shared<const LoweredLanes>(std::move(signature), std::move(fetch_specs), std::move(lowered),
                                              std::move(plan));
}

}  // namespace rivulet
