#include "federated/server_optimizers/server_rate.h"

#include <algorithm>

#include "engine/base/check.h"
#include "federated/server_optimizers/schedule.h"

namespace rivulet {
namespace {

StatusOr<Settings> OptionsOf(const ServerSchedule& schedule, const ScheduleConfig& config) {
  const SettingTable table = {.settings = schedule.settings};
  return ReadOwn(table, config.settings, "server.schedule");
}

}  // namespace

Status CheckServerSchedule(const ScheduleConfig& config) {
  RIVULET_ASSIGN_OR_RETURN(const ServerSchedule* const schedule, FindServerSchedule(config.kind));
  return OptionsOf(*schedule, config).status();
}

double ServerLearningRate(const ServerConfig& server, int64_t version) {
  const ScheduleConfig& config = server.schedule;
  const auto schedule = FindServerSchedule(config.kind);
  RIVULET_CHECK(schedule.ok(), "{}", Message(schedule.status()));
  const int64_t t = version - 1;
  double rate = server.learning_rate;
  if (t < config.warmup) rate *= static_cast<double>(t + 1) / static_cast<double>(config.warmup);
  if ((*schedule)->decay == nullptr) return rate;
  const auto settings = OptionsOf(**schedule, config);
  RIVULET_CHECK(settings.ok(), "{}", Message(settings.status()));
  return rate * (*schedule)->decay(*settings, std::max<int64_t>(0, t - config.warmup));
}

}  // namespace rivulet
