// Attacks by name.
#include <map>
#include <utility>

#include "federated/settings/setting_tables.h"
#include "simulations/attacks/attack.h"

namespace rivulet {
namespace {

constexpr char kAttack[] = "attack";

// Made at first use and never destroyed, because registrations come in any order.
std::map<std::string, AttackFactory, std::less<>>& Attacks() {
  static auto* const attacks = new std::map<std::string, AttackFactory, std::less<>>;
  return *attacks;
}

}  // namespace

AttackRegistration::AttackRegistration(const char* name, std::vector<Setting> settings, AttackFactory factory) {
  SettingTableRegistration({kAttack, name, std::move(settings)});
  Attacks().emplace(name, factory);
}

Status Attack::Poison(std::string&, Draws) const { return absl::OkStatus(); }
StatusOr<bool> Attack::Show(std::string&) const { return false; }
Status Attack::Change(std::span<float>, Draws, const BenignFn&) const { return absl::OkStatus(); }

StatusOr<std::unique_ptr<const Attack>> Attack::Create(std::string_view name, const SettingValues& settings,
                                                       Features features) {
  RIVULET_ASSIGN_OR_RETURN(const SettingTable* table, FindSettingTable(kAttack, name));
  RIVULET_ASSIGN_OR_RETURN(const Settings read,
                           Settings::Read(table->settings, settings, fmt::format("{} '{}'", kAttack, name)));
  return Attacks().find(name)->second(read, std::move(features));
}

}  // namespace rivulet
