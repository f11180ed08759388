// Update pipeline of a device's lanes (client/training/update_pipeline.h): clipping, seeded noise, error feedback and
// codec of every part, for all lanes at once, before the fold. Stages that the fold cannot do while it reads use a
// scratch vector of each lane, which then holds the decoded values. Other mechanisms run on the host, among them noise
// for privacy, which comes from the system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "client/training/device/gpu_codec.h"
#include "client/training/device/gpu_fold.h"
#include "client/training/device/gpu_lane_memory.h"
#include "client/training/device/gpu_lanes.h"
#include "client/training/part_places.h"
#include "engine/gpu/gpu_device.h"

namespace rivulet {

// Pipeline of one trainer's lanes. Not thread-safe.
class GpuUpdatePipeline {
 public:
  // `plan`, `parts` and `memory` must outlive this.
  GpuUpdatePipeline(const Plan& plan, std::span<const PartPlaces> parts, const GpuLaneMemory& memory,
                    std::shared_ptr<GpuDevice> device);

  // Whether the device has all of the plan's mechanisms and codecs. If not, no function below may be called.
  bool known() const { return known_; }
  // Sets the stream of all work, before the first.
  void Use(GpuStream& stream) { stream_ = &stream; }

  // Bytes of a lane's memory for its update (LaneNeeds::update_bytes).
  size_t LaneBytes() const { return lane_bytes_; }
  // Host memory for the error feedback of `lanes` lanes. RESOURCE_EXHAUSTED.
  Status ReserveHost(int lanes);
  // Enqueues all stages on the stream, after the training. Reads error feedback from LaneTask::beside.
  Status Send(std::span<const GpuLane> lanes);
  // Writes the error feedback of lane `number` to LaneTask::beside, once the stream is done.
  void TellLeftOut(const LaneTask& task, int number) const;

  const PartSpec& spec(size_t part) const { return *sendings_[part].spec; }
  // The values of a part as the fold reads them: after the stages, or as trained if the fold does the rest.
  std::vector<GpuRun> SentRunsOf(size_t part) const;
  // The stages that the fold does while it reads.
  GpuFoldForm FormOf(size_t part) const;

 private:
  // Stages of a part. Places are offsets in each lane's memory for its update, or in the host's.
  struct Sending {
    const PartSpec* spec = nullptr;
    uint32_t op = 0;                // its index in the aggregation, for draws
    int64_t first = 0;              // of its values in the update
    std::optional<GpuCodec> codec;  // nullopt: only the host has it
    bool apart = false;             // in a separate vector
    size_t values = 0, left_out = 0, left_out_on_host = 0;
  };
  struct Noise {
    double deviation = 0;
    uint32_t op = 0;  // its index among the mechanisms
  };

  bool KnowMechanisms(std::span<const PieceSpec> mechanisms);
  void PlaceInLane();
  bool keeps(const Sending& sending) const { return sending.spec->error_feedback; }
  GpuOperand InLane(size_t place) const;
  std::vector<GpuRun> RunsOf(const PartPlaces& part) const;
  double* Factors() const;
  int64_t tries() const;
  const gpu::Stream* Streams() const;
  float* LeftOutOnHost(const Sending& sending, int lane) const;

  Status MeasureNorms(int lanes);
  Status BringLeftOut(const Sending& sending, std::span<const GpuLane> lanes);
  Status SendValues(size_t part, int lanes);
  Status AddNoise(int lanes);
  Status Encode(size_t part, int lanes);

  const std::span<const PartPlaces> parts_;
  const GpuLaneMemory& memory_;
  const std::shared_ptr<GpuDevice> device_;
  bool known_ = false;
  double clip_ = 0;  // the largest norm; 0: any
  std::vector<Noise> noises_;
  std::vector<Sending> sendings_;     // by part
  size_t squares_ = 0, scratch_ = 0;  // places
  size_t lane_bytes_ = 0, host_lane_bytes_ = 0;
  PinnedMemory host_memory_;
  GpuStream* stream_ = nullptr;
};

}  // namespace rivulet
