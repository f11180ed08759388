#include "client/training/device/gpu_lanes.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "client/training/pass_length.h"
#include "client/training/task_inputs.h"
#include "client/training/task_streams.h"

namespace rivulet {
namespace {

// Sets the order in which a task takes its examples, over all passes: the same as for its client alone.
void FollowSteps(std::span<const LocalPass> passes, GpuLane& lane) {
  uint64_t epoch = 0;
  std::vector<uint32_t> shuffled;
  for (const LocalPass& pass : passes) {
    const int64_t batch = std::min(pass.batch_size, lane.size), of_epoch = (lane.size + batch - 1) / batch;
    int64_t seen = 0;
    lane.steps.push_back(StepsOf(pass, lane.size, EpochsOf(*lane.asked->task, pass)));
    for (int64_t left = lane.steps.back(); left > 0; left -= of_epoch, ++epoch) {
      OrderInto(shuffled, *lane.asked->task, epoch, lane.size, pass.shuffle);
      seen = std::min(left * batch, lane.size);
      lane.order.insert(lane.order.end(), shuffled.begin(), shuffled.begin() + seen);
    }
    lane.seen.push_back(seen);
  }
}

}  // namespace

uint64_t GpuLane::all_steps() const {
  return static_cast<uint64_t>(std::accumulate(steps.begin(), steps.end(), int64_t{0}));
}

int64_t ExamplesTaken(std::span<const LocalPass> passes, int64_t size) {
  int64_t taken = 0;
  for (const LocalPass& pass : passes) {
    const int64_t batch = std::min(pass.batch_size, size), of_epoch = (size + batch - 1) / batch;
    const int64_t steps = StepsOf(pass, size);
    taken += steps / of_epoch * size + std::min(steps % of_epoch * batch, size);
  }
  return taken;
}

std::vector<GpuLane> GpuLanesOf(std::span<const LocalPass> passes, std::span<const LaneTask> asked,
                                std::span<LocalResult> results) {
  std::vector<GpuLane> lanes;
  for (size_t i = 0; i < asked.size(); ++i) {
    const int64_t size = asked[i].examples->size();
    results[i].status = CheckExamples(asked[i].client_id, size, asked[i].task->kind);
    if (results[i].status.ok()) lanes.push_back({.request = i, .asked = &asked[i], .size = size});
  }
  std::ranges::stable_sort(lanes, std::greater<>(), &GpuLane::size);
  for (GpuLane& lane : lanes) FollowSteps(passes, lane);
  return lanes;
}

}  // namespace rivulet
