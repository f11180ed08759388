#include "engine/profile/gpu_trial.h"

#include <algorithm>
#include <utility>

#include "engine/gpu/gpu_alignment.h"
#include "engine/tensor/spec_bytes.h"

namespace rivulet {

StatusOr<GpuOperand> GpuTrial::NewOperand(size_t bytes, std::string_view what) {
  const size_t stride = GpuAligned(std::max<size_t>(bytes, 1));
  RIVULET_ASSIGN_OR_RETURN(GpuMemory memory, device_->Allocate(stride * static_cast<size_t>(lanes_), what));
  memory_.push_back(std::move(memory));
  return GpuOperand{memory_.back().data(), stride};
}

Status GpuTrial::FillLanes(const GpuOperand& operand, const std::byte* from, size_t bytes) {
  for (int lane = 0; lane < lanes_; ++lane) {
    RIVULET_RETURN_IF_ERROR(
        stream_->ToDevice(operand.data + static_cast<size_t>(lane) * operand.lane_stride, from, bytes));
  }
  return {};
}

StatusOr<std::unique_ptr<GpuTrial>> GpuTrial::Create(std::shared_ptr<const GpuProgram> program,
                                                     std::shared_ptr<GpuDevice> device,
                                                     std::span<const std::span<const std::byte>> buffers, int lanes) {
  std::unique_ptr<GpuTrial> run(new GpuTrial);
  run->device_ = std::move(device);
  run->program_ = std::move(program);
  run->lanes_ = lanes;
  RIVULET_ASSIGN_OR_RETURN(run->stream_, run->device_->NewStream());
  RIVULET_ASSIGN_OR_RETURN(run->instance_, run->program_->Instantiate(*run->device_));
  RIVULET_ASSIGN_OR_RETURN(run->arena_, run->NewOperand(run->program_->arena_bytes(), "a program's arena"));
  for (const std::span<const std::byte> values : buffers) {
    RIVULET_ASSIGN_OR_RETURN(const GpuOperand operand, run->NewOperand(values.size(), "variables"));
    RIVULET_RETURN_IF_ERROR(run->FillLanes(operand, values.data(), values.size()));
    run->buffers_.push_back(operand);
  }
  for (const FeedSpec& feed : run->program_->signature().feeds) {
    RIVULET_ASSIGN_OR_RETURN(const GpuOperand operand, run->NewOperand(TensorBytes(feed.spec), "feeds"));
    run->feeds_.push_back(operand);
  }
  for (const TensorSpec& spec : run->program_->fetch_specs()) {
    RIVULET_ASSIGN_OR_RETURN(const GpuOperand operand, run->NewOperand(TensorBytes(spec), "fetches"));
    run->fetches_.push_back(operand);
  }
  // All lanes draw the same, at step 0: as the host's measurements do.
  const std::vector<StreamKey> keys(static_cast<size_t>(lanes));
  const std::vector<uint64_t> steps(static_cast<size_t>(lanes), 0);
  RIVULET_ASSIGN_OR_RETURN(GpuMemory streams, run->device_->Allocate(keys.size() * sizeof(StreamKey), "draws"));
  RIVULET_ASSIGN_OR_RETURN(GpuMemory counts, run->device_->Allocate(steps.size() * sizeof(uint64_t), "draws"));
  RIVULET_RETURN_IF_ERROR(run->stream_->ToDevice(streams.data(), keys.data(), keys.size() * sizeof(StreamKey)));
  RIVULET_RETURN_IF_ERROR(run->stream_->ToDevice(counts.data(), steps.data(), steps.size() * sizeof(uint64_t)));
  run->draws_ = {reinterpret_cast<const StreamKey*>(streams.data()), reinterpret_cast<const uint64_t*>(counts.data())};
  run->memory_.push_back(std::move(streams));
  run->memory_.push_back(std::move(counts));
  RIVULET_RETURN_IF_ERROR(run->stream_->Wait());
  return run;
}

Status GpuTrial::Feed(std::span<const TensorView> feeds) {
  for (size_t i = 0; i < feeds.size(); ++i) {
    RIVULET_RETURN_IF_ERROR(FillLanes(feeds_[i], feeds[i].data, TensorBytes({feeds[i].dtype, feeds[i].shape})));
  }
  return stream_->Wait();
}

Status GpuTrial::Put(GpuStream& stream, uint64_t first_label) {
  return instance_->Enqueue(stream, {.arena = arena_,
                                     .buffers = buffers_,
                                     .feeds = feeds_,
                                     .fetches = fetches_,
                                     .lanes = {lanes_, nullptr},
                                     .draws = draws_,
                                     .first_label = first_label});
}

Status GpuTrial::Fetch(int lane, std::span<const TensorView> fetches) {
  for (size_t i = 0; i < fetches.size(); ++i) {
    RIVULET_RETURN_IF_ERROR(stream_->ToHost(fetches[i].data,
                                            fetches_[i].data + static_cast<size_t>(lane) * fetches_[i].lane_stride,
                                            TensorBytes({fetches[i].dtype, fetches[i].shape})));
  }
  return stream_->Wait();
}

Status GpuTrial::FetchBuffer(int lane, size_t buffer, std::span<std::byte> to) {
  const GpuOperand& from = buffers_[buffer];
  RIVULET_RETURN_IF_ERROR(
      stream_->ToHost(to.data(), from.data + static_cast<size_t>(lane) * from.lane_stride, to.size()));
  return stream_->Wait();
}

}  // namespace rivulet
