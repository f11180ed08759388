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

// Step for one batch size. Not thread-safe: used by one trainer.
class LaneStep {
 public:
  // More lanes gain little: the cost of the shared work is already divided by so many.
  static constexpr int kMostLanes = 16;
  // The most memory of lanes between the calls of a step: a good part of a second-level cache.
  static constexpr size_t kMostBytes = size_t{1} << 20;

  // Null: the program cannot make these parts, or its lanes are too large to gain from sharing.
  static std::unique_ptr<LaneStep> Create(std::shared_ptr<const LaneProgram> program,
                                          std::span<const PartPlaces> parts);
  ~LaneStep();  // defined where LanePart is known

  int most() const { return most_; }                 // lanes, 2 to kMostLanes
  size_t bytes() const { return bytes_; }            // of memory, 64-byte aligned, for Use
  void Use(std::byte* memory) { memory_ = memory; }  // replaces the memory; its earlier content is lost
  // Place of a lane's batch, if `lanes` lanes run.
  std::vector<TensorView> Feeds(int lane, int lanes) const;
  // `buffers`: by the names of the program's signature; they must stay valid until the parts have been read.
  Status Run(int lanes, std::span<const Buffer> buffers, const CancellationToken& cancel);
  // After Run: the pass's scalars for a lane's step, in order of the program's fetches.
  std::vector<float> Scalars(int lane) const;
  // After Run, until memory or buffers change: the lane's update. Valid until the next Run.
  std::vector<PartView> Parts(int lane) const;

 private:
  struct Block {
    size_t update = 0;  // of the program
    int64_t first = 0, count = 0;
    int less = 0;  // the buffer that is subtracted, and its offset
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
