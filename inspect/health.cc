#include "inspect/health.h"

#include <algorithm>
#include <cmath>

#include "engine/base/quantities.h"
#include "inspect/spread.h"

namespace rivulet {
namespace {

constexpr double kTasksLost = 0.05, kAccuracyLost = 0.1, kLossGrown = 2;

std::string Fall(const RunOverview& run) {
  std::vector<std::string> names;
  for (const Curve& curve : run.curves) names.push_back(curve.name);
  const Curve* const curve = run.curve(FirstMetric(names));
  if (curve == nullptr || curve->points.size() < 2) return "";
  const auto& [round, best] = curve->best();
  const double last = curve->points.back().second;
  const bool fell = curve->lower_is_better ? best > 0 && last > kLossGrown * best : last < best - kAccuracyLost;
  return fell ? fmt::format("{} went from {} in round {} to {}", curve->name, MetricText(best), round, MetricText(last))
              : "";
}

}  // namespace

Health HealthOf(const RunOverview& run, const Pause* pause) {
  Health health;
  const auto reason = [&](Health::Grade grade, std::string text) {
    health.grade = std::max(health.grade, grade);
    health.reasons.push_back(std::move(text));
  };
  using enum Health::Grade;
  if (run.run.status == "failed") reason(kFailed, run.run.reason.empty() ? "the run failed" : run.run.reason);
  if (run.run.status == "interrupted")
    reason(kAttention, fmt::format("interrupted after round {}; it can be resumed", run.committed()));
  if (run.run.status == "running" && pause != nullptr) reason(kAttention, pause->Text());
  if (const Curve* loss = run.curve("train/loss"); loss != nullptr && !std::isfinite(loss->points.back().second))
    reason(kAttention, "the training loss is not a number");
  if (std::string fall = Fall(run); !fall.empty()) reason(kAttention, std::move(fall));
  int64_t tasks = 0, lost = 0, abandoned = 0;
  const RoundRow* last_abandoned = nullptr;
  for (const RoundRow& attempt : run.attempts) {
    tasks += attempt.selected;
    lost += attempt.failed + attempt.refused;
    if (attempt.status == "committed") continue;
    ++abandoned;
    last_abandoned = &attempt;
  }
  if (abandoned > 0)
    reason(kAttention, fmt::format("{} of {} attempts did not commit{}", abandoned, run.attempts.size(),
                                   last_abandoned->reason.empty() ? "" : ": " + last_abandoned->reason));
  const double share = tasks == 0 ? 0 : static_cast<double>(lost) / static_cast<double>(tasks);
  if (lost > 0)
    reason(share > kTasksLost ? kAttention : kHealthy,
           fmt::format("{} of {} tasks failed or were refused", lost, tasks));
  return health;
}

}  // namespace rivulet
