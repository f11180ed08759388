#include "client/training/device/gpu_lane_memory.h"

#include <algorithm>
#include <utility>

#include "engine/base/philox.h"
#include "engine/kernels/cuda/lane_batches.h"
#include "engine/tensor/spec_bytes.h"
#include "federated/plan/example_source.h"

namespace rivulet {
namespace {

constexpr size_t kSumBytes = gpu::kMostCounted * sizeof(double);  // of a pass

std::vector<size_t> RowBytesOf(const Plan& plan) {
  std::vector<size_t> bytes;
  const auto decoder = ExampleDecoder::Create(plan.features());
  if (!decoder.ok()) return bytes;
  for (const FeedSpec& feed : (*decoder)->FeedSpecs(1)) {
    bytes.push_back(TensorBytes(feed.spec));
  }
  return bytes;
}

}  // namespace

GpuLaneMemory::GpuLaneMemory(const PassPrograms& programs, std::shared_ptr<GpuDevice> device)
    : table_(programs.buffers()),
      plan_(programs.plan()),
      device_(std::move(device)),
      row_bytes_(RowBytesOf(programs.plan())) {
  for (const TaskKind kind : {TaskKind::kTrain, TaskKind::kEvaluate}) {
    const LocalProgram* const program = plan_.program(kind);
    if (program == nullptr) continue;
    for (const LocalPass& pass : program->passes) most_values_ = std::max(most_values_, pass.scalars.size());
  }
}

std::vector<size_t> GpuLaneMemory::CommonBytes(const LaneNeeds& needs) const {
  std::vector<size_t> bytes(Index(LaneRegion::kFeatures) + features());
  bytes[Index(LaneRegion::kSums)] = needs.passes * kSumBytes;
  bytes[Index(LaneRegion::kOrder)] = static_cast<size_t>(needs.order) * sizeof(uint32_t);
  bytes[Index(LaneRegion::kNumbers)] = needs.passes * sizeof(double);
  return bytes;
}

std::vector<size_t> GpuLaneMemory::DeviceBytes(const LaneNeeds& needs) const {
  std::vector<size_t> bytes = CommonBytes(needs);
  for (int i = 0; i < table_.size(); ++i) bytes[static_cast<size_t>(i)] = table_.borrowed(i) ? 0 : table_.bytes(i);
  bytes[Index(LaneRegion::kArena)] = needs.arena_bytes;
  bytes[Index(LaneRegion::kValues)] = most_values_ * kValueBytes;
  bytes[Index(LaneRegion::kProgress)] = sizeof(gpu::LaneProgress);
  bytes[Index(LaneRegion::kUpdate)] = needs.update_bytes;
  for (size_t i = 0; i < features(); ++i) {
    bytes[Index(LaneRegion::kFeatures) + i] = static_cast<size_t>(needs.feed_rows) * row_bytes_[i];
  }
  return bytes;
}

size_t GpuLaneMemory::LaneBytes(const LaneNeeds& needs) const {
  size_t bytes = LaneRegions::LaneBytes(DeviceBytes(needs)) + needs.fold_lane_bytes;
  for (const size_t row : row_bytes_) bytes += GpuAligned(static_cast<size_t>(needs.rows) * row);
  return bytes;
}

size_t GpuLaneMemory::SharedBytes() const {
  size_t shared = 0;
  for (int i = 0; i < table_.size(); ++i) shared += table_.borrowed(i) ? table_.bytes(i) : 0;
  return shared;
}

size_t GpuLaneMemory::BytesLeft(size_t for_examples) const {
  return device_->bytes_available() + device_memory_.size() + for_examples;
}

int GpuLaneMemory::MostLanes(const LaneNeeds& needs, size_t for_examples) const {
  const size_t left = BytesLeft(for_examples), shared = SharedBytes() + needs.fold_bytes, lane = LaneBytes(needs);
  if (left <= shared || lane == 0) return 0;
  return static_cast<int>(std::min<size_t>((left - shared) / lane, 1 << 20));
}

Status GpuLaneMemory::ReserveHost(int lanes, const LaneNeeds& needs) {
  std::vector<size_t> bytes = CommonBytes(needs);
  for (const int buffer : needs.brought) bytes[static_cast<size_t>(buffer)] = table_.bytes(buffer);
  std::vector<size_t> shared(Index(SharedRegion::kRound) + 1);
  shared[Index(SharedRegion::kStreams)] = static_cast<size_t>(lanes) * sizeof(StreamKey);
  shared[Index(SharedRegion::kRound)] = sizeof(double);
  if (!host_.Grow(lanes, bytes, shared)) return absl::OkStatus();
  host_memory_ = PinnedMemory();  // freed before the larger one is allocated
  auto memory = device_->AllocatePinned(host_.bytes());
  if (memory.ok()) {
    host_memory_ = *std::move(memory);
    return absl::OkStatus();
  }
  host_ = LaneRegions();
  return memory.status();
}

Status GpuLaneMemory::ReserveHostIds(size_t ids) {
  if (ids * sizeof(int32_t) <= host_ids_.size()) return absl::OkStatus();
  RIVULET_ASSIGN_OR_RETURN(host_ids_, device_->AllocatePinned(2 * ids * sizeof(int32_t)));
  return absl::OkStatus();
}

StatusOr<bool> GpuLaneMemory::ReserveDevice(int lanes, const LaneNeeds& needs) {
  std::vector<size_t> shared(Index(SharedRegion::kRound) + 1);
  for (int i = 0; i < table_.size(); ++i) shared[static_cast<size_t>(i)] = table_.borrowed(i) ? table_.bytes(i) : 0;
  const auto count = static_cast<size_t>(lanes);
  shared[Index(SharedRegion::kSteps)] = count * sizeof(uint64_t);
  shared[Index(SharedRegion::kStreams)] = count * sizeof(StreamKey);
  shared[Index(SharedRegion::kIds)] = needs.ids * sizeof(int32_t);
  shared[Index(SharedRegion::kListed)] = count * sizeof(int32_t);
  shared[Index(SharedRegion::kFactors)] = count * sizeof(double);
  shared[Index(SharedRegion::kRound)] = sizeof(double);
  if (!on_device_.Grow(lanes, DeviceBytes(needs), shared)) return false;
  device_memory_ = GpuMemory();
  auto memory =
      device_->Allocate(on_device_.bytes(), fmt::format("{} lanes of plan '{}'", on_device_.lanes(), plan_.name()));
  if (!memory.ok()) {
    on_device_ = LaneRegions();
    return memory.status();
  }
  device_memory_ = *std::move(memory);
  base_brought_ = false;
  operands_.clear();
  for (int i = 0; i < table_.size(); ++i) {
    const auto region = static_cast<size_t>(i);
    operands_.push_back(table_.borrowed(i) ? GpuOperand{device_memory_.data() + on_device_.shared_offset(region), 0}
                                           : DeviceAt(region));
  }
  return true;
}

void GpuLaneMemory::ReleaseDevice() {
  device_memory_ = GpuMemory();
  on_device_ = LaneRegions();
}

std::byte* GpuLaneMemory::HostAt(size_t region, int lane) const {
  return host_memory_.data() + host_.offset(region) + static_cast<size_t>(lane) * host_.stride(region);
}

std::byte* GpuLaneMemory::HostShared(SharedRegion region) const {
  return host_memory_.data() + host_.shared_offset(Index(region));
}

const double* GpuLaneMemory::HostSums(int lane, size_t pass) const {
  return reinterpret_cast<const double*>(HostLane(LaneRegion::kSums, lane) + pass * kSumBytes);
}

GpuOperand GpuLaneMemory::DeviceAt(size_t region) const {
  return {device_memory_.data() + on_device_.offset(region), on_device_.stride(region)};
}

std::byte* GpuLaneMemory::Shared(SharedRegion region) const {
  return device_memory_.data() + on_device_.shared_offset(Index(region));
}

GpuOperand GpuLaneMemory::Sums(size_t pass) const {
  GpuOperand sums = Lane(LaneRegion::kSums);
  sums.data += pass * kSumBytes;
  return sums;
}

Status GpuLaneMemory::Bring(GpuStream& stream, int lanes, size_t ids, std::span<const std::byte> base,
                            std::span<const AlignedBuffer* const> broadcasts) {
  const auto count = static_cast<size_t>(lanes);
  RIVULET_RETURN_IF_ERROR(stream.ToDevice(operands_[BufferTable::kBaseParams].data, base.data(), base.size()));
  if (!base_brought_ && !plan_.layout()->base_variables().empty()) {
    RIVULET_ASSIGN_OR_RETURN(const std::span<const Buffer> values, plan_.base_buffers());
    for (size_t i = 0; i < values.size(); ++i) {
      const int buffer = table_.base(i);
      RIVULET_RETURN_IF_ERROR(
          stream.ToDevice(operands_[static_cast<size_t>(buffer)].data, values[i].data, table_.bytes(buffer)));
    }
    base_brought_ = true;
  }
  for (size_t i = 0; i < broadcasts.size(); ++i) {
    const GpuOperand& to = operands_[static_cast<size_t>(table_.broadcast(i))];
    RIVULET_RETURN_IF_ERROR(stream.ToDevice(to.data, broadcasts[i]->data(), broadcasts[i]->size()));
  }
  RIVULET_RETURN_IF_ERROR(
      stream.ToDevice(Shared(SharedRegion::kStreams), HostShared(SharedRegion::kStreams), count * sizeof(StreamKey)));
  RIVULET_RETURN_IF_ERROR(
      stream.ToDevice(Shared(SharedRegion::kRound), HostShared(SharedRegion::kRound), sizeof(double)));
  if (ids > 0) {
    RIVULET_RETURN_IF_ERROR(stream.ToDevice(Shared(SharedRegion::kIds), host_ids_.data(), ids * sizeof(int32_t)));
  }
  RIVULET_RETURN_IF_ERROR(stream.Fill(Shared(SharedRegion::kSteps), 0, count * sizeof(uint64_t)));
  for (const LaneRegion region : {LaneRegion::kProgress, LaneRegion::kSums}) {
    const GpuOperand all = Lane(region);
    RIVULET_RETURN_IF_ERROR(stream.Fill(all.data, 0, count * all.lane_stride));
  }
  const GpuOperand numbers = Lane(LaneRegion::kNumbers);
  RIVULET_RETURN_IF_ERROR(
      stream.ToDevice(numbers.data, HostLane(LaneRegion::kNumbers, 0), count * numbers.lane_stride));

  // The gaps between gradients are never written, and norms and checks read the whole vector.
  std::vector<int> of_gradients = {BufferTable::kGrads};
  if (plan_.flat_names().other_grads) of_gradients.push_back(table_.index("other_grads"));
  for (const int buffer : of_gradients) {
    if (table_.bytes(buffer) == 0) continue;
    const GpuOperand& gradients = operands_[static_cast<size_t>(buffer)];
    RIVULET_RETURN_IF_ERROR(stream.Fill(gradients.data, 0, count * gradients.lane_stride));
  }
  const GpuOperand& scalars = operands_[BufferTable::kScalars];
  RIVULET_RETURN_IF_ERROR(stream.Fill(scalars.data, 0, count * scalars.lane_stride));
  const gpu::Lanes all = {lanes, nullptr};
  RIVULET_RETURN_IF_ERROR(stream.Launch(
      "fill_words", gpu::FillWordsArguments{SpanOf<uint32_t>(scalars, BufferTable::kRound * sizeof(double)),
                                            {reinterpret_cast<const uint32_t*>(Shared(SharedRegion::kRound)), 0},
                                            sizeof(double) / sizeof(uint32_t),
                                            0,
                                            all}));
  return stream.Launch("fill_words",
                       gpu::FillWordsArguments{SpanOf<uint32_t>(operands_[BufferTable::kParams]),
                                               SpanOf<const uint32_t>(operands_[BufferTable::kBaseParams]),
                                               static_cast<int64_t>(base.size() / sizeof(uint32_t)), 0, all});
}

// In one copy if both sides have the same stride, which fails only if one of them could not be allocated at first.
Status GpuLaneMemory::BringOrders(GpuStream& stream, int lanes) {
  const GpuOperand to = Lane(LaneRegion::kOrder);
  const size_t bytes = host_.stride(Index(LaneRegion::kOrder));
  if (bytes == to.lane_stride) {
    return stream.ToDevice(to.data, HostLane(LaneRegion::kOrder, 0), static_cast<size_t>(lanes) * bytes);
  }
  for (int lane = 0; lane < lanes; ++lane) {
    RIVULET_RETURN_IF_ERROR(stream.ToDevice(to.data + static_cast<size_t>(lane) * to.lane_stride,
                                            HostLane(LaneRegion::kOrder, lane), std::min(bytes, to.lane_stride)));
  }
  return absl::OkStatus();
}

Status GpuLaneMemory::BringPlace(GpuStream& stream, int buffer, int lane, size_t offset, size_t bytes) {
  const GpuOperand& to = operands_[static_cast<size_t>(buffer)];
  return stream.ToDevice(to.data + static_cast<size_t>(lane) * to.lane_stride + offset,
                         HostBuffer(buffer, lane) + offset, bytes);
}

Status GpuLaneMemory::Fetch(GpuStream& stream, int lanes, std::span<const int> buffers) {
  const auto count = static_cast<size_t>(lanes);
  for (const int buffer : buffers) {
    const GpuOperand& from = operands_[static_cast<size_t>(buffer)];
    RIVULET_RETURN_IF_ERROR(stream.ToHost(HostBuffer(buffer, 0), from.data, count * from.lane_stride));
  }
  return FetchSums(stream, lanes);
}

Status GpuLaneMemory::FetchSums(GpuStream& stream, int lanes) {
  const GpuOperand sums = Lane(LaneRegion::kSums);
  return stream.ToHost(HostLane(LaneRegion::kSums, 0), sums.data, static_cast<size_t>(lanes) * sums.lane_stride);
}

}  // namespace rivulet
