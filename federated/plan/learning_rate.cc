#include "federated/plan/learning_rate.h"

#include "federated/plan/number.h"
#include "federated/plan/schedule.h"
#include "federated/settings/traits.h"

namespace rivulet {

bool IsConstant(const ScheduleConfig& schedule) {
  return schedule.warmup == 0 && HasTrait("schedule", schedule.kind, kKeepsRate);
}

StatusOr<LearningRate> LearningRate::Create(const ScheduleConfig& config, double learning_rate) {
  RIVULET_ASSIGN_OR_RETURN(const Schedule* const schedule, FindSchedule(config.kind));
  const SettingTable table = {.settings = schedule->settings};
  RIVULET_ASSIGN_OR_RETURN(Settings settings, ReadOwn(table, config.settings, "client.schedule"));
  return LearningRate(schedule, std::move(settings), config.warmup, learning_rate);
}

// Graph nodes instead of client code, so that a plan may use a schedule that clients do not know.
Output LearningRate::At(const Scope& caller, Output t) const {
  const Scope scope = caller.SubScope("learning_rate");
  Output rate = Number(scope, learning_rate_);
  Output u = t;
  if (warmup_ > 0) {
    const Output warmup = Number(scope, static_cast<double>(warmup_));
    const Output warm = scope.Op("RealDiv", {scope.Op("AddV2", {t, Number(scope, 1)}), warmup});
    rate = scope.Op("Mul", {rate, scope.Op("Minimum", {warm, Number(scope, 1)})});
    u = scope.Op("Maximum", {scope.Op("Sub", {t, warmup}), Number(scope, 0)});
  }
  return schedule_->decay == nullptr ? rate : scope.Op("Mul", {rate, schedule_->decay(scope, settings_, u)});
}

}  // namespace rivulet
