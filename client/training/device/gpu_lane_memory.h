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

// Beside the plan's buffers, which come first, and each feature's batch, which come last.
enum class LaneRegion : size_t { kArena, kValues, kProgress, kSums, kOrder, kNumbers, kUpdate, kFeatures };
enum class SharedRegion : size_t { kSteps, kStreams, kIds, kListed, kFactors, kRound };

// As device code takes it.
template <typename T>
gpu::LaneSpan<T> SpanOf(const GpuOperand& operand, size_t offset = 0) {
  return {reinterpret_cast<T*>(operand.data + offset), operand.lane_stride};
}

// What tasks need of it: the most of any of them.
struct LaneNeeds {
  size_t passes = 0;
  int64_t rows = 0;       // examples that are read, which lie apart
  int64_t order = 0;      // examples that are taken, one after the other
  int64_t feed_rows = 0;  // of a batch
  size_t arena_bytes = 0;
  size_t update_bytes = 0;  // of what happens to its update (client/training/device/gpu_update_pipeline.h)
  size_t fold_bytes = 0;    // what a fold is going to take apart: of all lanes, and of each
  size_t fold_lane_bytes = 0;
  size_t ids = 0;                // in lists of lanes
  std::span<const int> brought;  // buffers that come to the host
};

// Not thread-safe.
class GpuLaneMemory {
 public:
  // A pass's numbers lie so far apart, each at an address of its own that any kernel may write to.
  static constexpr size_t kValueBytes = kGpuAlignment;

  GpuLaneMemory(const PassPrograms& programs, std::shared_ptr<GpuDevice> device);

  // On the device, what one lane takes, with its examples; and how many lanes go into what it has left, with
  // `for_examples` that are kept there by now and would give way.
  size_t LaneBytes(const LaneNeeds& needs) const;
  int MostLanes(const LaneNeeds& needs, size_t for_examples) const;
  size_t SharedBytes() const;  // of vectors that all lanes read
  size_t BytesLeft(size_t for_examples) const;

  // RESOURCE_EXHAUSTED. What lay there is lost where it moves; lists of lanes lie apart.
  Status ReserveHost(int lanes, const LaneNeeds& needs);
  Status ReserveHostIds(size_t ids);
  StatusOr<bool> ReserveDevice(int lanes, const LaneNeeds& needs);  // whether it moved
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

  // Puts into the stream: for lanes 0 to `lanes` - 1, the parameters as the base has them, everything counted from 0,
  // and what is shared. The plan's other vectors are as they were: its begin programs write them.
  Status Bring(GpuStream& stream, int lanes, size_t ids, std::span<const std::byte> base,
               std::span<const AlignedBuffer* const> broadcasts);
  // In which order each lane takes its examples, as it stands in HostLane(kOrder, …).
  Status BringOrders(GpuStream& stream, int lanes);
  Status BringPlace(GpuStream& stream, int buffer, int lane, size_t offset, size_t bytes);
  // Back to the host: these buffers, and the sums.
  Status Fetch(GpuStream& stream, int lanes, std::span<const int> buffers);
  Status FetchSums(GpuStream& stream, int lanes);

 private:
  size_t Index(LaneRegion region) const { return static_cast<size_t>(table_.size()) + static_cast<size_t>(region); }
  size_t Index(SharedRegion region) const { return static_cast<size_t>(table_.size()) + static_cast<size_t>(region); }
  // Of what both have, 0 for the buffers.
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
  bool base_brought_ = false;  // to device_memory_
  std::vector<GpuOperand> operands_;
};

}  // namespace rivulet
