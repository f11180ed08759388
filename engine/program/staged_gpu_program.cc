#include "engine/program/staged_gpu_program.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/tensor/spec_bytes.h"

namespace rivulet {
namespace {

// One lane, whose device memory is allocated once.
class StagedInstance final : public Instance {
 public:
  static StatusOr<std::unique_ptr<Instance>> Create(const GpuProgram& program, GpuDevice& device) {
    std::unique_ptr<StagedInstance> made(new StagedInstance(program));
    RIVULET_ASSIGN_OR_RETURN(made->stream_, device.NewStream());
    RIVULET_ASSIGN_OR_RETURN(made->instance_, program.Instantiate(device));
    RIVULET_ASSIGN_OR_RETURN(made->arena_, device.Allocate(program.arena_bytes(), "the arena of a program"));
    for (const FeedSpec& feed : program.signature().feeds) {
      RIVULET_ASSIGN_OR_RETURN(GpuMemory memory,
                               device.Allocate(TensorBytes(feed.spec), fmt::format("feed '{}'", feed.tensor)));
      made->feeds_.push_back(std::move(memory));
    }
    for (size_t i = 0; i < program.fetch_specs().size(); ++i) {
      RIVULET_ASSIGN_OR_RETURN(GpuMemory memory,
                               device.Allocate(TensorBytes(program.fetch_specs()[i]),
                                               fmt::format("fetch '{}'", program.signature().fetches[i])));
      made->fetches_.push_back(std::move(memory));
    }
    for (size_t i = 0; i < program.uses_buffer().size(); ++i) {
      const size_t bytes = program.uses_buffer()[i] ? made->BufferBytes(static_cast<int>(i)) : 0;
      RIVULET_ASSIGN_OR_RETURN(GpuMemory memory, device.Allocate(bytes, "the variables of a program"));
      made->buffers_.push_back(std::move(memory));
    }
    RIVULET_ASSIGN_OR_RETURN(made->draws_, device.Allocate(sizeof(Draws), "the stream of a program's draws"));
    return std::unique_ptr<Instance>(std::move(made));
  }

  Status Run(const Bindings& bindings, const CancellationToken& cancel) override {
    if (cancel.cancelled()) return Cancelled("the run was cancelled before it went to the device");
    RIVULET_RETURN_IF_ERROR(Check(bindings));
    const Status status = Enqueue(bindings);
    // Also after an error: queued work refers to the host's memory.
    const Status waited = stream_->Wait();
    return status.ok() ? waited : status;
  }

 private:
  struct Draws {
    StreamKey stream;
    uint64_t step;
  };

  explicit StagedInstance(const GpuProgram& program) : program_(program) {}

  size_t BufferBytes(int buffer) const {
    size_t bytes = 0;
    for (const VariableBinding& variable : program_.signature().variables) {
      if (variable.buffer == buffer) bytes = std::max(bytes, variable.offset + TensorBytes(variable.spec));
    }
    for (const BufferCopy& copy : program_.signature().copies) {
      if (copy.to == buffer || copy.from == buffer) bytes = std::max(bytes, copy.bytes);
    }
    return bytes;
  }

  static Status CheckTensors(std::span<const TensorView> given, size_t count, std::string_view what) {
    if (given.size() == count) return {};
    return InvalidArgument("the program takes {} {}, not {}", count, what, given.size());
  }

  Status CheckTensor(const TensorView& view, const TensorSpec& spec, const std::string& name) const {
    if (view.dtype == spec.dtype && view.shape == spec.shape) return {};
    return InvalidArgument("'{}' is {}{}, the program was compiled for {}{}", name, Name(view.dtype),
                           view.shape.ToString(), Name(spec.dtype), spec.shape.ToString());
  }

  Status Check(const Bindings& bindings) const {
    const Signature& signature = program_.signature();
    RIVULET_RETURN_IF_ERROR(CheckTensors(bindings.feeds, signature.feeds.size(), "feeds"));
    RIVULET_RETURN_IF_ERROR(CheckTensors(bindings.fetches, signature.fetches.size(), "fetches"));
    for (size_t i = 0; i < bindings.feeds.size(); ++i) {
      RIVULET_RETURN_IF_ERROR(CheckTensor(bindings.feeds[i], signature.feeds[i].spec, signature.feeds[i].tensor));
    }
    for (size_t i = 0; i < bindings.fetches.size(); ++i) {
      RIVULET_RETURN_IF_ERROR(CheckTensor(bindings.fetches[i], program_.fetch_specs()[i], signature.fetches[i]));
    }
    for (size_t i = 0; i < buffers_.size(); ++i) {
      if (program_.uses_buffer()[i] && (i >= bindings.buffers.size() || bindings.buffers[i].data == nullptr)) {
        return InvalidArgument("the program's variables are in buffer {}, which is not bound", i);
      }
    }
    return {};
  }

  Status Enqueue(const Bindings& bindings) {
    std::vector<GpuOperand> buffers, feeds, fetches;
    for (size_t i = 0; i < feeds_.size(); ++i) {
      RIVULET_RETURN_IF_ERROR(stream_->ToDevice(feeds_[i].data(), bindings.feeds[i].data, feeds_[i].size()));
      feeds.push_back({feeds_[i].data(), 0});
    }
    for (const GpuMemory& fetch : fetches_) fetches.push_back({fetch.data(), 0});
    for (size_t i = 0; i < buffers_.size(); ++i) {
      if (program_.uses_buffer()[i]) {
        RIVULET_RETURN_IF_ERROR(stream_->ToDevice(buffers_[i].data(), bindings.buffers[i].data, buffers_[i].size()));
      }
      buffers.push_back({buffers_[i].data(), 0});
    }
    GpuBindings on_device{.arena = {arena_.data(), 0}, .buffers = buffers, .feeds = feeds, .fetches = fetches};
    if (!bindings.rng.empty()) {
      host_draws_ = {bindings.rng[0], bindings.step.empty() ? 0 : bindings.step[0]};
      RIVULET_RETURN_IF_ERROR(stream_->ToDevice(draws_.data(), &host_draws_, sizeof(Draws)));
      on_device.draws = {reinterpret_cast<const StreamKey*>(draws_.data() + offsetof(Draws, stream)),
                         reinterpret_cast<const uint64_t*>(draws_.data() + offsetof(Draws, step))};
    }
    RIVULET_RETURN_IF_ERROR(instance_->Enqueue(*stream_, on_device));
    for (size_t i = 0; i < fetches_.size(); ++i) {
      RIVULET_RETURN_IF_ERROR(stream_->ToHost(bindings.fetches[i].data, fetches_[i].data(), fetches_[i].size()));
    }
    // Copies back only changed buffers: other threads may be reading the others.
    for (size_t i = 0; i < buffers_.size(); ++i) {
      if (!program_.writes_buffer()[i]) continue;
      RIVULET_RETURN_IF_ERROR(stream_->ToHost(bindings.buffers[i].data, buffers_[i].data(), buffers_[i].size()));
    }
    return {};
  }

  const GpuProgram& program_;  // kept alive by the instance below
  std::unique_ptr<GpuInstance> instance_;
  GpuMemory arena_, draws_;
  std::vector<GpuMemory> feeds_, fetches_, buffers_;
  Draws host_draws_{};
  std::unique_ptr<GpuStream> stream_;  // destroyed first: it refers to the members above
};

class StagedProgram final : public Program {
 public:
  StagedProgram(std::shared_ptr<const GpuProgram> program, std::shared_ptr<GpuDevice> device)
      : program_(std::move(program)), device_(std::move(device)) {
    memory_.constant_bytes = program_->memory().constant_bytes;
  }
  const Signature& signature() const override { return program_->signature(); }
  std::span<const TensorSpec> fetch_specs() const override { return program_->fetch_specs(); }
  const MemoryPlan& memory() const override { return memory_; }
  std::span<const Instruction> instructions() const override { return program_->instructions(); }
  double flops() const override { return program_->flops(); }
  StatusOr<std::unique_ptr<Instance>> Instantiate() const override {
    return StagedInstance::Create(*program_, *device_);
  }

 private:
  const std::shared_ptr<const GpuProgram> program_;
  const std::shared_ptr<GpuDevice> device_;
  MemoryPlan memory_;  // of the host: no arena
};

}  // namespace

std::shared_ptr<const Program> NewStagedProgram(std::shared_ptr<const GpuProgram> program,
                                                std::shared_ptr<GpuDevice> device) {
  return std::make_shared<StagedProgram>(std::move(program), std::move(device));
}

}  // namespace rivulet
