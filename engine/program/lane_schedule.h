// Schedule of the steps of lanes with unlike sizes. Each lane's own steps keep their order: whole batches, then the
// smaller rest of its epoch. Steps of different lanes have no order among them, so all lanes with a step of one batch
// size left take it together. An epoch is a few groups of lanes, each with a repeat count.
//
// A lane outside a group is idle: none of its memory is read or written, its stream draws no number, and its step count
// does not change.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rivulet {

// One step of `batch_size` examples for each of `lanes`, `times` times.
struct LaneGroup {
  int64_t batch_size = 0;
  std::vector<int32_t> lanes;  // ascending, none twice
  int64_t times = 1;
  bool operator==(const LaneGroup&) const = default;
};

// What a client has still to do in a pass.
struct LaneWork {
  int64_t size = 0;        // of its examples, at least 1
  int64_t steps_left = 0;  // in this pass; 0: the pass is over for it
};

// How many steps so many epochs over `size` examples have, `max_steps` at most where that is not 0.
int64_t StepsOf(int64_t size, int64_t batch_size, int64_t epochs, int64_t max_steps);

// The next epoch of a pass for those that have steps left; takes these off. Clients that stand in descending order of
// size make groups of whole batches that are the first so and so many.
std::vector<LaneGroup> NextEpoch(std::span<LaneWork> lanes, int64_t batch_size);

}  // namespace rivulet
