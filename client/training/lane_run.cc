#include "client/training/lane_run.h"

#include <optional>
#include <utility>

#include "client/training/task_streams.h"

namespace rivulet {

void LaneRun::GoOn() {
  if (checkpoint == nullptr || from_base) return;
  std::optional<TrainingPosition> left = checkpoint->GoOn(own);
  if (!left) return;
  at = *std::move(left);
  goes_on = true;
}

void LaneRun::BeginPass() {
  at.pass_step = at.step;
  at.pass_epoch = at.epoch;
}

void LaneRun::BeginEpoch(const LocalPass& pass) {
  if (std::exchange(goes_on, false)) return;
  at.sums.assign(pass.scalars.size(), 0);
  at.seen = 0;
  at.batches = 0;
}

void LaneRun::Count(const LocalPass& pass, std::span<const float> values, int64_t count) {
  for (size_t i = 0; i < values.size(); ++i)
    at.sums[i] += static_cast<double>(values[i]) * (pass.scalars[i].sum ? 1 : static_cast<double>(count));
  at.seen += count;
  ++at.batches;
  ++at.step;
}

uint64_t LaneRun::LastStep(const LocalPass& pass) const {
  return pass.max_steps == 0 ? UINT64_MAX : at.pass_step + static_cast<uint64_t>(pass.max_steps);
}

bool LaneRun::MayBegin(const LocalPass& pass, uint64_t last) const {
  return static_cast<int64_t>(at.epoch - at.pass_epoch) < EpochsOf(task, pass) && (goes_on || at.step < last);
}

}  // namespace rivulet
