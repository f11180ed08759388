// Parts of the updates that a device's lanes have trained: left on the device, where they pass the update pipeline
// (client/training/device/gpu_update_pipeline.h) and are folded, or copied to the host.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "client/training/device/gpu_fold.h"
#include "client/training/device/gpu_lane_memory.h"
#include "client/training/device/gpu_update_pipeline.h"
#include "client/training/part_places.h"
#include "client/training/pass_programs.h"
#include "client/training/trainer.h"
#include "engine/gpu/gpu_device.h"
#include "federated/aggregation/update.h"

namespace rivulet {

// Parts of one trainer's lanes; its memory, table and stream must outlive this. Not thread-safe.
class GpuParts {
 public:
  GpuParts(const Plan& plan, const BufferTable& table, const GpuLaneMemory& memory, std::shared_ptr<GpuDevice> device);
  GpuParts(const GpuParts&) = delete;
  ~GpuParts();  // defined where LanePart is known

  // Sets the stream of folds and of the pipeline, before the first of these.
  void Use(GpuStream& stream);
  // Whether parts can be folded on the device: all lanes share the base of differences, and the pipeline is known
  // there.
  bool can_stay() const { return can_stay_; }
  // Buffers with parts, which are copied to the host if parts do not stay; some twice.
  std::span<const int> sent() const { return sent_; }

  // The stages before the fold; only if parts can stay.
  GpuUpdatePipeline& pipeline() { return pipeline_; }
  const GpuUpdatePipeline& pipeline() const { return pipeline_; }
  // Further device memory that a fold of the largest part needs: for its sums, and per lane.
  size_t FoldBytes() const;
  size_t FoldLaneBytes() const;
  // The parts of lane `number` on the device, until the next training.
  std::vector<PartView> Left(int number) const;
  // The same on the host, once the buffers have been copied there; without those that `declared` excludes.
  std::vector<PartView> Brought(const LaneTask& task, int number, const Scalars& declared);

 private:
  class LanePart;

  const float* OnHost(const LaneTask& task, int number, int buffer, size_t offset) const;

  const BufferTable& table_;
  const GpuLaneMemory& memory_;
  const Plan& plan_;
  const std::vector<PartPlaces> parts_;
  GpuUpdatePipeline pipeline_;
  GpuFold fold_;
  GpuStream* stream_ = nullptr;
  std::vector<std::unique_ptr<const LanePart>> left_;  // by part; empty if they cannot stay
  std::vector<int> sent_;
  bool can_stay_;
  std::vector<std::vector<std::vector<FloatRun>>> runs_;  // of the last results, by lane and part
};

}  // namespace rivulet
