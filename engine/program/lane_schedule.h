// Schedule of the steps of lanes with different sizes. Each lane's own steps keep their order: whole batches, then the
// smaller rest of its epoch. Steps of different lanes have no mutual order, so all lanes that still have a step of one
// batch size take it together. An epoch is a few groups of lanes, each with a repeat count.
//
// A lane outside a group is idle: none of its memory is read or written, its stream draws no number, and its step count
// does not change.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rivulet {

// One step of `batch_size` examples for each of `lanes`, repeated `times` times.
struct LaneGroup {
  int64_t batch_size = 0;
  std::vector<int32_t> lanes;  // ascending, without repetition
  int64_t times = 1;
  bool operator==(const LaneGroup&) const = default;
};

// Remaining work of a client in a pass.
struct LaneWork {
  int64_t size = 0;        // number of its examples, at least 1
  int64_t steps_left = 0;  // in this pass; 0: the client has finished the pass
};

// The number of steps in so many epochs over `size` examples, at most `max_steps` if that is not 0.
int64_t StepsOf(int64_t size, int64_t batch_size, int64_t epochs, int64_t max_steps);

// Schedules the next epoch of a pass for lanes with remaining steps, and subtracts these. If clients are in descending
// order of size, each group of whole batches is a prefix of the lanes.
std::vector<LaneGroup> NextEpoch(std::span<LaneWork> lanes, int64_t batch_size);

}  // namespace rivulet
