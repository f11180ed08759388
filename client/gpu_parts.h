// The parts of what lanes of a device have trained: left there and folded where they lie, or brought to the host.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "client/gpu_fold.h"
#include "client/gpu_lane_memory.h"
#include "client/part_places.h"
#include "client/pass_programs.h"
#include "client/trainer.h"
#include "engine/gpu/gpu_device.h"
#include "federated/aggregation/update.h"

namespace rivulet {

// One trainer's, whose memory, table and stream must outlive it. Not thread-safe.
class GpuParts {
 public:
  GpuParts(const Plan& plan, const BufferTable& table, const GpuLaneMemory& memory, std::shared_ptr<GpuDevice> device);
  GpuParts(const GpuParts&) = delete;
  ~GpuParts();  // where LanePart is known

  // In which folds are done; before the first.
  void Use(GpuStream& stream) { stream_ = &stream; }
  // Whether parts can be folded on the device: what all values are differences to is the same for all lanes.
  bool can_stay() const { return can_stay_; }
  // Buffers that lie where parts do, and are brought to the host where parts do not stay; some twice.
  std::span<const int> sent() const { return sent_; }

  // The parts of lane `number` where they were trained, until the next training.
  std::vector<PartView> Left(int number) const;
  // The same on the host, to which the buffers have been brought.
  std::vector<PartView> Brought(const LaneTask& task, int number);

 private:
  class LanePart;

  const float* OnHost(const LaneTask& task, int number, int buffer, size_t offset) const;

  const BufferTable& table_;
  const GpuLaneMemory& memory_;
  const std::vector<PartPlaces> parts_;
  GpuFold fold_;
  GpuStream* stream_ = nullptr;
  std::vector<std::unique_ptr<const LanePart>> left_;  // by part
  std::vector<int> sent_;
  bool can_stay_ = true;
  std::vector<std::vector<std::vector<FloatRun>>> runs_;  // of the last results, by lane and part
};

}  // namespace rivulet
