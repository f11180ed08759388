// Memory of a GpuTrainer's lanes. On the device: each buffer of the plan, the arena, a batch and the counts of every
// lane. On the host: pinned staging memory for copies in both directions. Examples are stored apart, for all lanes
// (client/training/device/gpu_examples.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "client/training/pass_programs.h"
#include "engine/gpu/gpu_alignment.h"
#include "engine/gpu/gpu_device.h"
#include "engine/kernels/cuda/lane_span.h"
#include "engine/program/gpu_kernel.h"
#include "engine/program/lane_regions.h"

namespace rivulet {

// Regions between the plan's buffers, which come first, and each feature's batch, which come last.
enum class LaneRegion : size_t { kArena, kValues, kProgress, kSums, kOrder, kNumbers, kUpdate, kFeatures };
enum class SharedRegion : size_t { kSteps, kStreams, kIds, kListed, kFactors, kRound };

// Converts an operand to the form that device code takes.
template <typename T>
gpu::LaneSpan<T> SpanOf(const GpuOperand& operand, size_t offset = 0) {
  return {reinterpret_cast<T*>(operand.data + offset), operand.lane_stride};
}

// Memory needs of tasks: the maximum over all of them.
struct LaneNeeds {
  size_t passes = 0;
  int64_t rows = 0;       // examples that are read, which are stored separately
  int64_t order = 0;      // examples that are taken, one after another
  int64_t feed_rows = 0;  // of a batch
  size_t arena_bytes = 0;
  size_t update_bytes = 0;  // for the stages of its update (client/training/device/gpu_update_pipeline.h)
  size_t fold_bytes = 0;    // the separate need of a fold: for all lanes, and for each
  size_t fold_lane_bytes = 0;
  size_t ids = 0;                // in lists of lanes
  std::span<const int> brought;  // buffers that are copied to the host
};

// Memory of all lanes. Not thread-safe.
class GpuLaneMemory {
 public:
  // Distance between a pass's numbers, each at an address that any kernel may write to.
  static constexpr size_t kValueBytes = kGpuAlignment;

  GpuLaneMemory(const PassPrograms& programs, std::shared_ptr<GpuDevice> device);

  // Device memory of one lane with its examples; and the number of lanes that fit into the free memory, plus the
  // `for_examples` bytes that are kept now and may be freed.
  size_t LaneBytes(const LaneNeeds& needs) const;
  int MostLanes(const LaneNeeds& needs, size_t for_examples) const;
  size_t SharedBytes() const;  // of vectors that all lanes read
  size_t BytesLeft(size_t for_examples) const;

  // RESOURCE_EXHAUSTED. A moved region loses its content; lists of lanes are separate.
  Status ReserveHost(int lanes, const LaneNeeds& needs);
  Status ReserveHostIds(size_t ids);
  StatusOr<bool> ReserveDevice(int lanes, const LaneNeeds& needs);  // true: it moved
  void ReleaseDevice();

  std::byte* HostBuffer(int buffer, int lane) const { return HostAt(static_cast<size_t>(buffer), lane); }
  std::byte* HostLane(LaneRegion region, int lane) const { return HostAt(Index(region), lane); }
  std::byte* HostShared(SharedRegion region) const;
  int32_t* HostIds() const { return reinterpret_cast<int32_t*>(host_ids_.data()); }
  const double* HostSums(int lane, size_t pass) const;

  GpuOperand Lane(LaneRegion region) const { return DeviceAt(Index(region)); }
  GpuOperand Feed(size_t feature) const { return DeviceAt(Index(LaneRegion::kFeatures) + feature); }
  std::byte* Shared(SharedRegion region) const;
  GpuOperand Sums(size_t pass) const;
  std::span<const GpuOperand> buffers() const { return operands_; }  // by the table's index
  std::span<const size_t> row_bytes() const { return row_bytes_; }   // of an example, by feature
  size_t features() const { return row_bytes_.size(); }

  // Enqueues on the stream: for lanes 0 to `lanes` - 1, the base's parameters, zeroed counts, and the shared regions.
  // Other vectors of the plan are unchanged: its begin programs write them.
  Status Bring(GpuStream& stream, int lanes, size_t ids, std::span<const std::byte> base,
               std::span<const AlignedBuffer* const> broadcasts);
  // Copies each lane's order of examples from HostLane(kOrder, …).
  Status BringOrders(GpuStream& stream, int lanes);
  Status BringPlace(GpuStream& stream, int buffer, int lane, size_t offset, size_t bytes);
  // Copies these buffers, and the sums, back to the host.
  Status Fetch(GpuStream& stream, int lanes, std::span<const int> buffers);
  Status FetchSums(GpuStream& stream, int lanes);

 private:
  size_t Index(LaneRegion region) const { return static_cast<size_t>(table_.size()) + static_cast<size_t>(region); }
  size_t Index(SharedRegion region) const { return static_cast<size_t>(table_.size()) + static_cast<size_t>(region); }
  // Bytes of the regions that both sides have, 0 for the buffers.
  std::vector<size_t> CommonBytes(const LaneNeeds& needs) const;
  std::vector<size_t> DeviceBytes(const LaneNeeds& needs) const;
  std::byte* HostAt(size_t region, int lane) const;
  GpuOperand DeviceAt(size_t region) const;

  const BufferTable& table_;
  const Plan& plan_;
  const std::shared_ptr<GpuDevice> device_;
  std::vector<size_t> row_bytes_;
  size_t most_values_ = 0;  // of a pass
  LaneRegions host_, on_device_;
  PinnedMemory host_memory_, host_ids_;
  GpuMemory device_memory_;
  bool base_brought_ = false;  // the base is in device_memory_
  std::vector<GpuOperand> operands_;
};

}  // namespace rivulet
