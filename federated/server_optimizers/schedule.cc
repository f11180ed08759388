// Registry of the server's schedules, and options that several of them share.
#include "federated/server_optimizers/schedule.h"

#include <map>
#include <utility>

#include "engine/base/join.h"
#include "engine/base/nearest.h"
#include "federated/settings/registered_piece.h"

namespace rivulet {
namespace {

constexpr char kServerSchedule[] = "server schedule";

// Created at first use and never destroyed: registrations of other files run before main in an unspecified order.
std::map<std::string, ServerSchedule, std::less<>>& ServerSchedules() {
  static auto* const schedules = new std::map<std::string, ServerSchedule, std::less<>>;
  return *schedules;
}

}  // namespace

ServerScheduleRegistration::ServerScheduleRegistration(ServerSchedule schedule) {
  RegisterPiece(kServerSchedule, schedule.name, [schedule] {
    SettingTableRegistration(
        {.kind = kServerSchedule, .name = schedule.name, .settings = schedule.settings, .doc = schedule.doc});
    ServerSchedules().emplace(schedule.name, schedule);
  });
}

StatusOr<const ServerSchedule*> FindServerSchedule(const std::string& name) {
  const auto found = ServerSchedules().find(name);
  if (found != ServerSchedules().end()) return &found->second;
  const std::vector<std::string> names = SettingTableNames(kServerSchedule);
  return InvalidArgument("server.schedule.kind is '{}'; it must be one of {}.{}", name, Join(names, ", "),
                         DidYouMean(name, names));
}

Setting ServerScheduleLength() {
  Setting length = Integer("length", std::nullopt, "Versions that the decay takes.").Between(1, 1e9);
  length.default_in_words = "`run.rounds`";
  return WithExample(std::move(length), "100");
}

double ServerSchedulePeriods(const Settings& settings, int64_t u) {
  return static_cast<double>(u) / static_cast<double>(settings.integer("length"));
}

}  // namespace rivulet
