#include "engine/program/instance.h"

#include <algorithm>
#include <cstdint>

#include "engine/program/run_error.h"
#include "engine/program/tensor_list.h"

namespace rivulet {
namespace {

class TableInstance final : public Instance {
 public:
  // All lookups of a step are prepared here once: an address per operand in one table, a context per call that refers
  // to its part of it, and per base (arena, constants, each feed, fetch and buffer) the list of entries that depend on
  // it. A run then rewrites only entries whose base has moved, often only the feeds.
  TableInstance(std::shared_ptr<const Program> program, const LoweredProgram& lowered)
      : program_(std::move(program)), lowered_(lowered) {
    const size_t feeds = program_->signature().feeds.size(), fetches = program_->signature().fetches.size();
    first_feed_ = 2;
    first_fetch_ = first_feed_ + feeds;
    first_buffer_ = first_fetch_ + fetches;
    bases_.resize(first_buffer_ + lowered_.uses_buffer.size());
    size_t slots = 0;
    for (const Call& call : lowered_.calls) {
      slots += call.inputs.size() + call.outputs.size() + call.variables.size() + (call.has_scratch ? 1 : 0);
    }
    addresses_.resize(slots, nullptr);
    contexts_.resize(lowered_.calls.size());
    size_t slot = 0;
    for (size_t i = 0; i < lowered_.calls.size(); ++i) {
      const Call& call = lowered_.calls[i];
      KernelContext& context = contexts_[i];
      context.inputs = Table(call.inputs, slot);
      context.outputs = Table(call.outputs, slot);
      context.variables = Table(call.variables, slot);
      if (call.has_scratch) {
        Base& base = bases_[BaseOf(call.scratch)];
        base.scratches.push_back({i, call.scratch.offset});
      }
      states_.push_back(call.kernel->NewState());
      context.state = states_.back().get();
      if (call.stateful || call.nested) stateful_.push_back(i);
      if (call.nested) nested_.push_back(i);
    }
    // Kernels only read their inputs, but AlignedBuffer has no const variant. Constants belong to the program, which
    // all instances share, so they are bound only once.
    Patch(bases_[1], const_cast<std::byte*>(lowered_.constants.data()));
  }

  Status Run(const Bindings& bindings, const CancellationToken& cancel) override {
    RIVULET_RETURN_IF_ERROR(Bind(bindings));
    if (!nested_.empty()) HandOn(bindings, cancel);
    // Checked once per run, not per call: a step of a small model is eight calls in 4.5 µs, and the usual loop has no
    // test for observers.
    RunObserver* const observer = bindings.outer != nullptr ? bindings.outer->observer : bindings.observer;
    if (observer != nullptr) [[unlikely]]
      return RunObserved(*observer, cancel);
    for (size_t i = 0; i < contexts_.size(); ++i) {
      if (cancel.cancelled()) [[unlikely]]
        return Cancelled("the run was cancelled before node '{}'", lowered_.calls[i].node);
      Status status = lowered_.calls[i].kernel->Run(contexts_[i]);
      if (!status.ok()) [[unlikely]] {
        return ExplainRunError(lowered_.instructions[i], contexts_[i], status);
      }
    }
    return {};
  }

 private:
  // The same calls in the same order, with notifications to the observer.
  Status RunObserved(RunObserver& observer, const CancellationToken& cancel) {
    for (size_t i = 0; i < contexts_.size(); ++i) {
      if (cancel.cancelled()) return Cancelled("the run was cancelled before node '{}'", lowered_.calls[i].node);
      const int index = static_cast<int>(i);
      observer.Begin(*program_, index, contexts_[i]);
      const Status status = lowered_.calls[i].kernel->Run(contexts_[i]);
      if (!status.ok()) {
        observer.Failed(*program_, index, status);
        return ExplainRunError(lowered_.instructions[i], contexts_[i], status);
      }
      RIVULET_RETURN_IF_ERROR(observer.End(*program_, index, contexts_[i]));
    }
    return {};
  }

  void HandOn(const Bindings& bindings, const CancellationToken& cancel) {
    RunContext* run = bindings.outer;
    // A program run by another program's node is part of that run: one cancellation, one set of limits, one store of
    // lists. Only the outermost program resets the lists of the previous run.
    if (run == nullptr) {
      run_ = {cancel, bindings.observer, bindings.max_loop_steps, bindings.deadline, &lists_};
      lists_.Reset();
      run = &run_;
    }
    for (const size_t i : nested_) contexts_[i].run = run;
  }

  struct Slot {
    size_t index;
    size_t offset;
  };
  // All entries that depend on one address.
  struct Base {
    std::byte* address = nullptr;
    bool bound = false;
    std::vector<Slot> slots;      // in addresses_
    std::vector<Slot> scratches;  // in contexts_
  };

  size_t BaseOf(const Location& location) const {
    const size_t index = static_cast<size_t>(location.index);
    switch (location.base) {
      case Location::Base::kArena:
        return 0;
      case Location::Base::kConstants:
        return 1;
      case Location::Base::kFeed:
        return first_feed_ + index;
      case Location::Base::kFetch:
        return first_fetch_ + index;
      case Location::Base::kBuffer:
        return first_buffer_ + index;
    }
    return 0;
  }

  std::span<std::byte* const> Table(const std::vector<Location>& locations, size_t& slot) {
    const std::span<std::byte* const> table(addresses_.data() + slot, locations.size());
    for (const Location& location : locations) bases_[BaseOf(location)].slots.push_back({slot++, location.offset});
    return table;
  }

  void Patch(Base& base, std::byte* address) {
    // Most bases do not change between steps.
    if (base.bound && base.address == address) return;
    base.address = address;
    base.bound = true;
    for (const Slot& slot : base.slots) addresses_[slot.index] = address + slot.offset;
    for (const Slot& slot : base.scratches) contexts_[slot.index].scratch = address + slot.offset;
  }

  Status CheckTensor(const TensorView& view, const TensorSpec& spec, std::string_view what, const std::string& name) {
    if (view.dtype == spec.dtype && view.shape == spec.shape && (view.data != nullptr || spec.shape.elements() == 0))
        [[likely]] {
      return {};
    }
    if (view.dtype == spec.dtype && view.shape == spec.shape)
      return InvalidArgument("{} '{}' has no memory", what, name);
    return InvalidArgument("{} '{}' is {}{}, the program was compiled for {}{}", what, name, Name(view.dtype),
                           view.shape.ToString(), Name(spec.dtype), spec.shape.ToString());
  }

  // Checks everything that a caller can get wrong before the first call, so that kernels can trust addresses and sizes,
  // and a refused run has changed nothing.
  Status Bind(const Bindings& bindings) {
    const Signature& signature = program_->signature();
    if (bindings.lanes != 1) return InvalidArgument("a CPU program runs 1 lane, not {}", bindings.lanes);
    if (lowered_.memory.arena_bytes > 0 &&
        (bindings.arena == nullptr || reinterpret_cast<uintptr_t>(bindings.arena) % 64 != 0)) {
      return InvalidArgument("the program needs an arena of {} bytes at a multiple of 64", lowered_.memory.arena_bytes);
    }
    Patch(bases_[0], bindings.arena);
    if (bindings.feeds.size() != signature.feeds.size() || bindings.fetches.size() != signature.fetches.size()) {
      return InvalidArgument("the program takes {} feeds and {} fetches, not {} and {}", signature.feeds.size(),
                             signature.fetches.size(), bindings.feeds.size(), bindings.fetches.size());
    }
    for (size_t i = 0; i < bindings.feeds.size(); ++i) {
      RIVULET_RETURN_IF_ERROR(
          CheckTensor(bindings.feeds[i], signature.feeds[i].spec, "feed", signature.feeds[i].tensor));
      Patch(bases_[first_feed_ + i], bindings.feeds[i].data);
    }
    for (size_t i = 0; i < bindings.fetches.size(); ++i) {
      RIVULET_RETURN_IF_ERROR(
          CheckTensor(bindings.fetches[i], program_->fetch_specs()[i], "fetch", signature.fetches[i]));
      Patch(bases_[first_fetch_ + i], bindings.fetches[i].data);
    }
    for (size_t i = 0; i < lowered_.uses_buffer.size(); ++i) {
      if (!lowered_.uses_buffer[i]) continue;
      if (i >= bindings.buffers.size() || bindings.buffers[i].data == nullptr) {
        return InvalidArgument("the program's variables are in buffer {}, which is not bound", i);
      }
      if (reinterpret_cast<uintptr_t>(bindings.buffers[i].data) % 64 != 0) {
        return InvalidArgument("buffer {} does not start at a multiple of 64 bytes", i);
      }
      Patch(bases_[first_buffer_ + i], bindings.buffers[i].data);
    }
    if (stateful_.empty()) return {};
    if (lowered_.draws && bindings.rng.empty()) {
      return InvalidArgument("the program draws random numbers: bind a stream");
    }
    const StreamKey* rng = bindings.rng.empty() ? nullptr : bindings.rng.data();
    const uint64_t step = bindings.step.empty() ? 0 : bindings.step[0];
    for (const size_t i : stateful_) {
      contexts_[i].rng = rng;
      contexts_[i].step = step;
    }
    return {};
  }

  std::shared_ptr<const Program> program_;
  const LoweredProgram& lowered_;
  std::vector<std::unique_ptr<KernelState>> states_;
  std::vector<std::byte*> addresses_;
  std::vector<KernelContext> contexts_;
  std::vector<Base> bases_;  // arena, constants, feeds, fetches, buffers
  size_t first_feed_ = 0, first_fetch_ = 0, first_buffer_ = 0;
  std::vector<size_t> stateful_;  // including nested ones
  std::vector<size_t> nested_;
  RunContext run_;
  TensorListStore lists_;  // for runs that are not part of another
};

}  // namespace

std::unique_ptr<Instance> NewInstance(std::shared_ptr<const Program> program, const LoweredProgram& lowered) {
  return std::make_unique<TableInstance>(std::move(program), lowered);
}

}  // namespace rivulet
