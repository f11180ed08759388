// A learning-rate schedule of the server: its name, options and formula, in one registered file.
//
//   RIVULET_SERVER_SCHEDULE(inverse_registration, {.name = "inverse", .doc = "is half …", .settings = {…}, .decay =
//   …});
//
// The options are keys of [server.schedule]; parsing, ranges, messages and docs/reference/scenario.md are derived from
// them. Lookups are thread-safe once main has started.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/setting.h"
#include "engine/base/status.h"
#include "federated/settings/setting_tables.h"

namespace rivulet {

struct ServerSchedule {
  std::string name;
  std::string doc;  // completes "`name` …" in the reference
  std::vector<Setting> settings = {};
  // The factor of the learning rate `u` = 0, 1, … versions after warm-up. Null: always 1. It must use only sums,
  // products and quotients, which round the same on every machine.
  double (*decay)(const Settings& settings, int64_t u) = nullptr;
};

// INVALID_ARGUMENT names all kinds and the nearest one.
StatusOr<const ServerSchedule*> FindServerSchedule(const std::string& name);

// Also registers the table ("server schedule", name). CHECK fails if two have one name.
struct ServerScheduleRegistration {
  explicit ServerScheduleRegistration(ServerSchedule schedule);
};
#define RIVULET_SERVER_SCHEDULE(variable, ...) \
  [[maybe_unused]] static const ::rivulet::ServerScheduleRegistration variable(::rivulet::ServerSchedule __VA_ARGS__)

// The option "length" of decays, by default run.rounds.
Setting ServerScheduleLength();
// u / length.
double ServerSchedulePeriods(const Settings& settings, int64_t u);

}  // namespace rivulet
