// One step of several clients from one base model at once (engine/program/lanes.h). The forward and backward passes run
// over the rows of all clients, and each update is made block by block while it is folded. The weights are read once
// for all clients, no gradient is ever in memory, and each stretch of the sums stays in the cache. The bits are those
// of each client trained alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "client/training/part_places.h"
#include "engine/program/lanes.h"
#include "federated/aggregation/update.h"

namespace rivulet {

// Of one batch size. Not thread-safe: one trainer's.
class LaneStep {
 public:
  // More lanes gain little: what they share has been paid for by then.
  static constexpr int kMostLanes = 16;
  // What lanes keep between the calls of a step, at most: a good part of a second-level cache.
  static constexpr size_t kMostBytes = size_t{1} << 20;

  // Null: the program cannot make what the parts say, or its lanes are so large that they gain nothing together.
  static std::unique_ptr<LaneStep> Create(std::shared_ptr<const LaneProgram> program,
                                          std::span<const PartPlaces> parts);
  ~LaneStep();  // where LanePart is known

  int most() const { return most_; }                 // lanes, 2 to kMostLanes
  size_t bytes() const { return bytes_; }            // of memory, 64-byte aligned, that Use is to be given
  void Use(std::byte* memory) { memory_ = memory; }  // from now on; what lay there is gone
  // Where the batch of a lane belongs, of `lanes` that are to run.
  std::vector<TensorView> Feeds(int lane, int lanes) const;
  // `buffers`: as the program's signature names them; they must stay until the parts have been read.
  Status Run(int lanes, std::span<const Buffer> buffers, const CancellationToken& cancel);
  // After Run: what the pass says of a lane's step, in order of the program's fetches.
  std::vector<float> Scalars(int lane) const;
  // After Run, until memory or buffers change: the lane's update. Valid until the next Run.
  std::vector<PartView> Parts(int lane) const;

 private:
  struct Block {
    size_t update = 0;  // of the program
    int64_t first = 0, count = 0;
    int less = 0;  // buffer of what is subtracted, at
    size_t offset = 0;
  };
  struct Part {
    std::string name;
    int64_t elements = 0;
    std::vector<Block> blocks;
  };
  class LanePart;

  explicit LaneStep(std::shared_ptr<const LaneProgram> program);
  bool AddBlocks(const RunPlace& place, Part& part) const;
  FloatRun Make(const Block& block, int lane) const;
  size_t FeedBytes(size_t feed) const;

  const std::shared_ptr<const LaneProgram> program_;
  std::vector<Part> parts_;
  int most_ = 0;
  size_t bytes_ = 0;
  std::byte* memory_ = nullptr;                           // the arena, then feeds
  std::vector<std::unique_ptr<LaneInstance>> instances_;  // by number of lanes
  const LaneInstance* ran_ = nullptr;
  std::vector<Buffer> buffers_;                        // of the last run
  std::vector<std::vector<float>> fetched_;            // by fetch and lane
  std::vector<std::unique_ptr<const LanePart>> made_;  // by lane and part
  mutable std::vector<float> values_;                  // of one block
};

}  // namespace rivulet
