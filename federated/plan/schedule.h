// A learning-rate schedule of clients: its name, options and graph, in one registered file.
//
//   RIVULET_SCHEDULE(step_registration, {.name = "step", .doc = "multiplies …", .settings = {…}, .decay = StepDecay});
//
// The options are keys of [client.schedule]; parsing, ranges, messages and docs/reference/scenario.md are derived from
// them. A schedule consists of nodes of the plan, so clients can run schedules that their program does not know.
// Lookups are thread-safe once main has started.
#pragma once

#include <string>
#include <vector>

#include "engine/base/setting.h"
#include "engine/base/status.h"
#include "engine/graph/scope.h"
#include "federated/settings/setting_tables.h"

namespace rivulet {

struct Schedule {
  std::string name;
  std::string doc;  // completes "`name` …" in the reference: "goes to `end` within `length` and stays there"
  std::vector<Setting> settings = {};
  // The factor of the learning rate at time `u` = 0, 1, … after warm-up, both float64 scalars. Null: always 1. It must
  // use only Rivulet's own kernels: sums, products, Exp and Log.
  Output (*decay)(const Scope& scope, const Settings& settings, Output u) = nullptr;
};

// INVALID_ARGUMENT names all kinds and the nearest one.
StatusOr<const Schedule*> FindSchedule(const std::string& name);

// Also registers the table ("schedule", name). CHECK fails if two have one name.
struct ScheduleRegistration {
  explicit ScheduleRegistration(Schedule schedule);
};
#define RIVULET_SCHEDULE(variable, ...) \
  [[maybe_unused]] static const ::rivulet::ScheduleRegistration variable(::rivulet::Schedule __VA_ARGS__)

// Options of several schedules: "length" (run.rounds by default), "end" and "decay_rate".
Setting ScheduleLength();
Setting ScheduleEnd();
Setting ScheduleDecayRate();

// u / length, without and with an upper limit of 1.
Output SchedulePeriods(const Scope& scope, const Settings& settings, Output u);
Output ScheduleProgress(const Scope& scope, const Settings& settings, Output u);
// end + (1 - end) · left.
Output TowardsEnd(const Scope& scope, const Settings& settings, Output left);
// base ^ exponent, for a constant base.
Output PowerOf(const Scope& scope, double base, Output exponent);

}  // namespace rivulet
