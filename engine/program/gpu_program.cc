#include "engine/program/gpu_program.h"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/mutex.h"
#include "engine/gpu/gpu_alignment.h"
#include "engine/program/call_details.h"
#include "engine/program/lowering.h"
#include "engine/program/structural_ops.h"
#include "engine/tensor/spec_bytes.h"

namespace rivulet {
namespace {

constexpr int32_t kMostLanes = 65535;  // maximum depth of grids

bool IsAligned(const GpuOperand& operand) {
  return (reinterpret_cast<uintptr_t>(operand.data) | operand.lane_stride) % 64 == 0;
}

// Arguments of a program's calls: an operand for each of
// their inputs, outputs and variables, consecutively.
class GpuTableInstance final : public GpuInstance {
 public:
  GpuTableInstance(std::shared_ptr<const GpuProgram> program, const LoweredProgram& lowered,
                   const std::vector<bool>& writes_buffer, std::shared_ptr<const GpuMemory> constants)
      : program_(std::move(program)),
        lowered_(lowered),
        writes_buffer_(writes_buffer),
        constants_(std::move(constants)) {
    size_t operands = 0;
    for (const Call& call : lowered_.calls) {
      operands += call.inputs.size() + call.outputs.size() + call.variables.size();
    }
    operands_.resize(operands);
  }

  Status Enqueue(GpuStream& stream, const GpuBindings& bindings) override {
    RIVULET_RETURN_IF_ERROR(Check(bindings));
    if (bindings.lanes.count == 0) return {};
    auto next = operands_.begin();
    const auto place = [&](const std::vector<Location>& locations) {
      const auto first = next;
      for (const Location& location : locations) *next++ = At(location, bindings);
      return std::span<const GpuOperand>(first, next);
    };
    const bool labelled = bindings.first_label != 0;
    for (size_t i = 0; i < lowered_.calls.size(); ++i) {
      const Call& call = lowered_.calls[i];
      if (labelled) RIVULET_RETURN_IF_ERROR(stream.Label(bindings.first_label + i));
      GpuContext context{.stream = &stream, .lanes = bindings.lanes, .draws = bindings.draws};
      context.inputs = place(call.inputs);
      context.outputs = place(call.outputs);
      context.variables = place(call.variables);
      if (call.has_scratch) context.scratch = At(call.scratch, bindings);
      // NewGpuProgram has checked that all are of this class.
      const Status status = static_cast<const GpuKernel&>(*call.kernel).Launch(context);
      if (!status.ok()) return Annotate(status, fmt::format("{} '{}'", call.op, call.node));
    }
    return labelled ? stream.Label(0) : absl::OkStatus();
  }

 private:
  GpuOperand At(const Location& location, const GpuBindings& bindings) const {
    const auto index = static_cast<size_t>(location.index);
    const auto behind = [&](const GpuOperand& operand) {
      return GpuOperand{operand.data + location.offset, operand.lane_stride};
    };
    switch (location.base) {
      case Location::Base::kArena:
        return behind(bindings.arena);
      case Location::Base::kConstants:
        return {constants_->data() + location.offset, 0};
      case Location::Base::kFeed:
        return behind(bindings.feeds[index]);
      case Location::Base::kFetch:
        return behind(bindings.fetches[index]);
      case Location::Base::kBuffer:
        return behind(bindings.buffers[index]);
    }
    return {};
  }

  Status Check(const GpuBindings& bindings) const {
    const GpuLanes& lanes = bindings.lanes;
    if (lanes.count < 0 || lanes.count > kMostLanes) {
      return InvalidArgument("{} lanes: a program runs 0 to {} at once", lanes.count, kMostLanes);
    }
    const Signature& signature = program_->signature();
    if (bindings.feeds.size() != signature.feeds.size() || bindings.fetches.size() != signature.fetches.size()) {
      return InvalidArgument("the program takes {} feeds and {} fetches, not {} and {}", signature.feeds.size(),
                             signature.fetches.size(), bindings.feeds.size(), bindings.fetches.size());
    }
    if (lowered_.memory.arena_bytes > 0) {
      RIVULET_RETURN_IF_ERROR(CheckOperand(bindings.arena, lanes, program_->arena_bytes(), true, "the arena"));
    }
    for (size_t i = 0; i < bindings.feeds.size(); ++i) {
      RIVULET_RETURN_IF_ERROR(CheckOperand(bindings.feeds[i], lanes, TensorBytes(signature.feeds[i].spec), false,
                                           fmt::format("feed '{}'", signature.feeds[i].tensor)));
    }
    for (size_t i = 0; i < bindings.fetches.size(); ++i) {
      RIVULET_RETURN_IF_ERROR(CheckOperand(bindings.fetches[i], lanes, TensorBytes(program_->fetch_specs()[i]), true,
                                           fmt::format("fetch '{}'", signature.fetches[i])));
    }
    for (size_t i = 0; i < lowered_.uses_buffer.size(); ++i) {
      if (!lowered_.uses_buffer[i]) continue;
      if (i >= bindings.buffers.size()) {
        return InvalidArgument("the program's variables are in buffer {}, which is not bound", i);
      }
      RIVULET_RETURN_IF_ERROR(
          CheckOperand(bindings.buffers[i], lanes, 1, writes_buffer_[i], fmt::format("buffer {}", i)));
    }
    if (lowered_.draws && bindings.draws.streams == nullptr) {
      return InvalidArgument("the program draws random numbers: bind a stream for each lane");
    }
    return {};
  }

  static Status CheckOperand(const GpuOperand& operand, const GpuLanes& lanes, size_t bytes, bool written,
                             std::string_view what) {
    if (bytes == 0) return {};
    if (operand.data == nullptr) return InvalidArgument("{} is not bound", what);
    if (!IsAligned(operand)) {
      return InvalidArgument("{} does not begin, in every lane, at a multiple of 64 bytes", what);
    }
    const bool several = lanes.count > 1 || lanes.ids != nullptr;
    if (several && operand.lane_stride == 0 && written) {
      return InvalidArgument("{} is written by every lane, and needs a stride between lanes", what);
    }
    if (several && operand.lane_stride != 0 && operand.lane_stride < bytes) {
      return InvalidArgument("{} has {} bytes a lane, and a stride of {}", what, bytes, operand.lane_stride);
    }
    return {};
  }

  const std::shared_ptr<const GpuProgram> program_;
  const LoweredProgram& lowered_;
  const std::vector<bool>& writes_buffer_;
  const std::shared_ptr<const GpuMemory> constants_;
  std::vector<GpuOperand> operands_;
};

class CompiledGpuProgram final : public GpuProgram {
 public:
  CompiledGpuProgram(Signature signature, std::vector<TensorSpec> fetch_specs, LoweredProgram lowered)
      : signature_(std::move(signature)),
        fetch_specs_(std::move(fetch_specs)),
        lowered_(std::move(lowered)),
        writes_buffer_(lowered_.uses_buffer.size(), false) {
    const auto write = [&](const std::vector<Location>& locations) {
      for (const Location& location : locations) {
        if (location.base == Location::Base::kBuffer) writes_buffer_[static_cast<size_t>(location.index)] = true;
      }
    };
    for (const Call& call : lowered_.calls) {
      write(call.outputs);
      if (call.stateful && !OnlyReadsVariables(call.op)) write(call.variables);
    }
  }
  const Signature& signature() const override { return signature_; }
  std::span<const TensorSpec> fetch_specs() const override { return fetch_specs_; }
  const MemoryPlan& memory() const override { return lowered_.memory; }
  size_t arena_bytes() const override { return GpuAligned(lowered_.memory.arena_bytes); }
  std::span<const Instruction> instructions() const override { return lowered_.instructions; }
  double flops() const override { return lowered_.flops; }
  const std::vector<bool>& uses_buffer() const override { return lowered_.uses_buffer; }
  const std::vector<bool>& writes_buffer() const override { return writes_buffer_; }
  const LoweredProgram& lowered() const { return lowered_; }

  StatusOr<std::unique_ptr<GpuInstance>> Instantiate(GpuDevice& device) const override {
    auto self = std::static_pointer_cast<const CompiledGpuProgram>(shared_from_this());
    RIVULET_ASSIGN_OR_RETURN(auto constants, ConstantsOn(device));
    return std::make_unique<GpuTableInstance>(std::move(self), lowered_, writes_buffer_, std::move(constants));
  }

 private:
  // Freed with the last instance on the device, so that a closed device gets its memory back.
  StatusOr<std::shared_ptr<const GpuMemory>> ConstantsOn(GpuDevice& device) const {
    const MutexLock lock(mutex_);
    std::weak_ptr<const GpuMemory>& known = constants_[&device];
    if (auto constants = known.lock()) return constants;
    const size_t bytes = lowered_.memory.constant_bytes;
    RIVULET_ASSIGN_OR_RETURN(GpuMemory memory, device.Allocate(bytes, "a program's constants"));
    auto constants = std::make_shared<const GpuMemory>(std::move(memory));
    if (bytes > 0) {
      RIVULET_ASSIGN_OR_RETURN(const auto stream, device.NewStream());
      RIVULET_RETURN_IF_ERROR(stream->ToDevice(constants->data(), lowered_.constants.data(), bytes));
      RIVULET_RETURN_IF_ERROR(stream->Wait());
    }
    known = constants;
    return constants;
  }

  const Signature signature_;
  const std::vector<TensorSpec> fetch_specs_;
  const LoweredProgram lowered_;
  std::vector<bool> writes_buffer_;
  mutable Mutex mutex_;
  mutable std::map<const GpuDevice*, std::weak_ptr<const GpuMemory>> constants_ GUARDED_BY(mutex_);
};

// Whether a variable's part is assigned to an overlapping part: threads would read bytes that others have written.
bool CopiesOverItself(const Call& call, const Instruction& listing) {
  if (listing.implementation != "copy") return false;
  const Location& from = call.inputs[0];
  const Location& to = call.outputs[0];
  if (from.base != Location::Base::kBuffer || to.base != Location::Base::kBuffer || from.index != to.index)
    return false;
  const size_t bytes = TensorBytes(listing.inputs[0]);
  return from.offset != to.offset && from.offset < to.offset + bytes && to.offset < from.offset + bytes;
}

}  // namespace

std::vector<CallDetails> CallDetailsOf(const GpuProgram& program) {
  std::vector<CallDetails> details(program.instructions().size());
  const auto* compiled = dynamic_cast<const CompiledGpuProgram*>(&program);
  for (size_t i = 0; compiled != nullptr && i < details.size(); ++i) {
    details[i].variable_bytes = static_cast<int64_t>(compiled->lowered().calls[i].variable_bytes);
  }
  return details;
}

StatusOr<std::shared_ptr<const GpuProgram>> NewGpuProgram(Signature signature, std::vector<TensorSpec> fetch_specs,
                                                          LoweredProgram lowered) {
  for (size_t i = 0; i < lowered.calls.size(); ++i) {
    const Call& call = lowered.calls[i];
    if (call.nested) {
      return Unimplemented("{} '{}' runs functions, which a device cannot; compile it for the CPU", call.op, call.node);
    }
    RIVULET_CHECK(dynamic_cast<const GpuKernel*>(call.kernel.get()) != nullptr,
                  "the CUDA kernel of {} '{}' is no device kernel", call.op, call.node);
    if (CopiesOverItself(call, lowered.instructions[i])) {
      return Unimplemented("{} '{}' assigns a part of a buffer to memory that overlaps it; compile it for the CPU",
                           call.op, call.node);
    }
  }
  return std::make_shared<const CompiledGpuProgram>(std::move(signature), std::move(fetch_specs), std::move(lowered));
}

}  // namespace rivulet
