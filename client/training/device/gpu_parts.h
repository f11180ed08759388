// Parts of the updates that a device's lanes have trained: left on the device and folded there, or copied to the host.
//
// The stages of the update pipeline (client/training/update_pipeline.h) run on the device for parts that are left:
// clipping, seeded noise, error feedback, codec. Stages that the fold cannot do while it reads use a scratch vector of
// each lane, which then holds the decoded values. Other mechanisms run on the host, among them noise for privacy, which
// comes from the system.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "client/training/device/gpu_codec.h"
#include "client/training/device/gpu_fold.h"
#include "client/training/device/gpu_lane_memory.h"
#include "client/training/device/gpu_lanes.h"
#include "client/training/part_places.h"
#include "client/training/pass_programs.h"
#include "client/training/trainer.h"
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

  // Where parts can stay, what a lane wants of the trainer's memory for its update (LaneNeeds::update_bytes); and of
  // the host's, for what is left out. RESOURCE_EXHAUSTED.
  size_t LaneBytes() const { return lane_bytes_; }
  // What a fold of the largest part has yet to take of the device: for its sums, and for each lane.
  size_t FoldBytes() const;
  size_t FoldLaneBytes() const;
  Status ReserveHost(int lanes);
  // Behind the training, where its parts stay and there is room for these lanes: puts into the stream what happens to
  // their updates. What a client's codec left out is read from LaneTask::beside.
  Status Send(std::span<const GpuLane> lanes);
  // When the stream is through: what the codecs of lane `number` have left out now, to where it was read from.
  void TellLeftOut(const LaneTask& task, int number) const;
  // The parts of lane `number` where they were trained, until the next training.
  std::vector<PartView> Left(int number) const;
  // The same on the host, to which the buffers have been brought;
  // those that a client has that declares this.
  std::vector<PartView> Brought(const LaneTask& task, int number, const Scalars& declared);

 private:
  class LanePart;

  // What happens to a part. Places are of each lane's memory for its update, or of that of the host.
  struct Sending {
    const PartSpec* spec = nullptr;
    uint32_t op = 0;                // its place in the aggregation, for draws
    int64_t first = 0;              // of its values in the update
    std::optional<GpuCodec> codec;  // nothing: the host's
    bool apart = false;             // in a vector of its own
    size_t values = 0, left_out = 0, left_out_on_host = 0;
  };
  struct Noise {
    double deviation = 0;
    uint32_t op = 0;  // its place among the mechanisms
  };

  bool KnowMechanisms(std::span<const PieceSpec> mechanisms);
  void PlaceInLane();
  bool keeps(const Sending& sending) const { return sending.spec->error_feedback; }
  GpuOperand InLane(size_t place) const;
  std::vector<GpuRun> RunsOf(const PartPlaces& part) const;
  std::vector<GpuRun> SentRunsOf(size_t part) const;
  GpuFoldForm FormOf(size_t part) const;
  double* Factors() const;
  int64_t tries() const;
  const gpu::Stream* Streams() const;
  float* LeftOutOnHost(const Sending& sending, int lane) const;

  Status MeasureNorms(int lanes);
  Status BringLeftOut(const Sending& sending, std::span<const GpuLane> lanes);
  Status SendValues(size_t part, int lanes);
  Status AddNoise(int lanes);
  Status Encode(size_t part, int lanes);

  const float* OnHost(const LaneTask& task, int number, int buffer, size_t offset) const;

  const BufferTable& table_;
  const GpuLaneMemory& memory_;
  const std::shared_ptr<GpuDevice> device_;
  const Plan& plan_;
  const std::vector<PartPlaces> parts_;
  GpuFold fold_;
  double clip_ = 0;  // the largest norm; 0: any
  std::vector<Noise> noises_;
  std::vector<Sending> sendings_;     // by part
  size_t squares_ = 0, scratch_ = 0;  // places
  size_t lane_bytes_ = 0, host_lane_bytes_ = 0;
  PinnedMemory host_memory_;
  GpuStream* stream_ = nullptr;
  std::vector<std::unique_ptr<const LanePart>> left_;  // by part
  std::vector<int> sent_;
  bool can_stay_ = true;
  std::vector<std::vector<std::vector<FloatRun>>> runs_;  // of the last results, by lane and part
};

}  // namespace rivulet
