#include "engine/program/lane_schedule.h"

#include <algorithm>
#include <map>

namespace rivulet {
namespace {

// A client with fewer examples than a batch has one step per epoch, of its size.
int64_t WholeBatch(int64_t size, int64_t batch_size) { return std::min(size, batch_size); }

}  // namespace

int64_t StepsOf(int64_t size, int64_t batch_size, int64_t epochs, int64_t max_steps) {
  const int64_t batch = WholeBatch(size, batch_size);
  const int64_t all = epochs * ((size + batch - 1) / batch);
  return max_steps == 0 ? all : std::min(all, max_steps);
}

std::vector<LaneGroup> NextEpoch(std::span<LaneWork> lanes, int64_t batch_size) {
  // By batch size: the number of whole batches of each lane in this epoch, and the lanes with a smaller rest.
  std::map<int64_t, std::vector<std::pair<int32_t, int64_t>>, std::greater<>> whole;
  std::map<int64_t, std::vector<int32_t>, std::greater<>> rests;
  for (size_t i = 0; i < lanes.size(); ++i) {
    LaneWork& lane = lanes[i];
    if (lane.steps_left == 0) continue;
    const auto number = static_cast<int32_t>(i);
    const int64_t batch = WholeBatch(lane.size, batch_size), rest = lane.size % batch;
    const int64_t taken = std::min(lane.size / batch, lane.steps_left);
    whole[batch].push_back({number, taken});
    lane.steps_left -= taken;
    if (rest == 0 || lane.steps_left == 0) continue;
    rests[rest].push_back(number);
    --lane.steps_left;
  }
  std::vector<LaneGroup> groups;
  for (const auto& [batch, takers] : whole) {
    for (int64_t done = 0;;) {
      LaneGroup group{batch, {}, INT64_MAX};
      for (const auto& [number, count] : takers) {
        if (count <= done) continue;
        group.lanes.push_back(number);
        group.times = std::min(group.times, count - done);
      }
      if (group.lanes.empty()) break;
      done += group.times;
      groups.push_back(std::move(group));
    }
  }
  for (auto& [batch, takers] : rests) groups.push_back({batch, std::move(takers), 1});
  return groups;
}

}  // namespace rivulet
