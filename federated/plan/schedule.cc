// Registry of schedules, and options that several of them share.
#include "federated/plan/schedule.h"

#include <cmath>
#include <map>
#include <utility>

#include "engine/base/join.h"
#include "engine/base/nearest.h"
#include "federated/plan/number.h"
#include "federated/settings/registered_piece.h"
#include "federated/settings/traits.h"

namespace rivulet {
namespace {

constexpr char kSchedule[] = "schedule";

// Created at first use and never destroyed: registrations of other files run before main in an unspecified order.
std::map<std::string, Schedule, std::less<>>& Schedules() {
  static auto* const schedules = new std::map<std::string, Schedule, std::less<>>;
  return *schedules;
}

}  // namespace

ScheduleRegistration::ScheduleRegistration(Schedule schedule) {
  RegisterPiece(kSchedule, schedule.name, [schedule] {
    std::vector<std::string> traits;
    if (schedule.decay == nullptr) traits.push_back(kKeepsRate);
    SettingTableRegistration({.kind = kSchedule,
                              .name = schedule.name,
                              .settings = schedule.settings,
                              .doc = schedule.doc,
                              .traits = std::move(traits)});
    Schedules().emplace(schedule.name, schedule);
  });
}

StatusOr<const Schedule*> FindSchedule(const std::string& name) {
  const auto found = Schedules().find(name);
  if (found != Schedules().end()) return &found->second;
  const std::vector<std::string> names = SettingTableNames(kSchedule);
  return InvalidArgument("client.schedule.kind is '{}'; it must be one of {}.{}", name, Join(names, ", "),
                         DidYouMean(name, names));
}

Setting ScheduleLength() {
  Setting length = Integer("length", std::nullopt, "Units that the decay takes.").Between(1, 1e9);
  length.default_in_words = "`run.rounds`";
  return WithExample(std::move(length), "100");
}

Setting ScheduleEnd() {
  return WithExample(Float("end", 0, "Share of the learning rate that is left at the end.").Between(0, 1e6), "0.01");
}

Setting ScheduleDecayRate() {
  return WithExample(Float("decay_rate", 0.5, "Factor of the learning rate after each `length`.").Above(0).Below(1e6),
                     "0.1");
}

Output SchedulePeriods(const Scope& scope, const Settings& settings, Output u) {
  return scope.Op("RealDiv", {u, Number(scope, static_cast<double>(settings.integer("length")))});
}

Output ScheduleProgress(const Scope& scope, const Settings& settings, Output u) {
  return scope.Op("Minimum", {SchedulePeriods(scope, settings, u), Number(scope, 1)});
}

Output TowardsEnd(const Scope& scope, const Settings& settings, Output left) {
  const double end = settings.number("end");
  return scope.Op("AddV2", {scope.Op("Mul", {left, Number(scope, 1 - end)}), Number(scope, end)});
}

Output PowerOf(const Scope& scope, double base, Output exponent) {
  return scope.Op("Exp", {scope.Op("Mul", {exponent, Number(scope, std::log(base))})});
}

}  // namespace rivulet
