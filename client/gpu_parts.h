// The parts of what lanes of a device have trained: left there and folded where they lie, or brought to the host.
//
// Left there, what the plan has happen to an update on its way (client/update_pipeline.h) happens while it is folded:
// it is clipped, and goes through a codec of 16 bits. Other mechanisms and codecs are the host's: noise that protects
// is the system's, and seeded noise and the draws of int8 and its like take from one stream as many numbers as values
// before them needed, which nobody knows without going through them.
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
  // Whether parts can be folded on the device: what all values are differences to is the same for all lanes, and what
  // is done to them is known there.
  bool can_stay() const { return can_stay_; }
  // Buffers that lie where parts do, and are brought to the host where parts do not stay; some twice.
  std::span<const int> sent() const { return sent_; }

  // Behind the training, where its parts stay: how far each lane's update is to be clipped.
  Status Measure(int lanes);
  // The parts of lane `number` where they were trained, until the next training.
  std::vector<PartView> Left(int number) const;
  // The same on the host, to which the buffers have been brought;
  // those that a client has that declares this.
  std::vector<PartView> Brought(const LaneTask& task, int number, const Scalars& declared);

 private:
  class LanePart;

  std::vector<GpuRun> RunsOf(const PartPlaces& part) const;
  std::byte* Factors() const;  // by lane, of the last Measure
  const float* OnHost(const LaneTask& task, int number, int buffer, size_t offset) const;

  const BufferTable& table_;
  const GpuLaneMemory& memory_;
  const std::shared_ptr<GpuDevice> device_;
  const Plan& plan_;
  const std::vector<PartPlaces> parts_;
  GpuFold fold_;
  double clip_ = 0;  // the largest norm; 0: any
  LaneRegions clipping_;
  GpuMemory clipping_memory_;
  GpuStream* stream_ = nullptr;
  std::vector<std::unique_ptr<const LanePart>> left_;  // by part
  std::vector<int> sent_;
  bool can_stay_ = true;
  std::vector<std::vector<std::vector<FloatRun>>> runs_;  // of the last results, by lane and part
};

}  // namespace rivulet
