// Mechanisms by name.
#include <algorithm>
#include <map>

#include "federated/mechanisms/mechanism.h"
#include "federated/settings/registered_piece.h"
#include "federated/settings/setting_tables.h"

namespace rivulet {
namespace {

constexpr char kMechanism[] = "mechanism";

// Created at first use and never destroyed, like the registry of codecs.
std::map<std::string, MechanismFactory, std::less<>>& Mechanisms() {
  static auto* const mechanisms = new std::map<std::string, MechanismFactory, std::less<>>;
  return *mechanisms;
}

}  // namespace

MechanismRegistration::MechanismRegistration(const char* name, std::vector<Setting> settings,
                                             MechanismFactory factory) {
  RegisterPiece(kMechanism, name, [=, name = std::string(name)] {
    SettingTableRegistration({kMechanism, name, settings});
    Mechanisms().emplace(name, factory);
  });
}

StatusOr<std::unique_ptr<const Mechanism>> Mechanism::Create(const PieceSpec& piece) {
  RIVULET_ASSIGN_OR_RETURN(const SettingTable* table, FindSettingTable(kMechanism, piece.name));
  RIVULET_ASSIGN_OR_RETURN(const Settings settings, Settings::Read(table->settings, piece.settings,
                                                                   fmt::format("{} '{}'", kMechanism, piece.name)));
  return Mechanisms().at(piece.name)(settings);
}

bool AreRepeatable(std::span<const PieceSpec> mechanisms) {
  return std::ranges::all_of(mechanisms, [](const PieceSpec& piece) {
    const auto mechanism = Mechanism::Create(piece);
    return !mechanism.ok() || (*mechanism)->repeatable();
  });
}

}  // namespace rivulet
