// Rules by name.
#include "federated/numbers/number_rule.h"

#include <algorithm>
#include <map>

#include "engine/base/join.h"
#include "federated/settings/registered_piece.h"
#include "federated/settings/setting_tables.h"

namespace rivulet {
namespace {

constexpr char kNumberRule[] = "number rule";

// Created at first use and never destroyed, like the registry of codecs.
std::map<std::string, NumberRuleFactory, std::less<>>& RulesByName() {
  static auto* const rules = new std::map<std::string, NumberRuleFactory, std::less<>>;
  return *rules;
}

}  // namespace

NumberRuleRegistration::NumberRuleRegistration(const char* name, std::vector<Setting> settings,
                                               NumberRuleFactory factory) {
  RegisterPiece(kNumberRule, name, [=, name = std::string(name)] {
    SettingTableRegistration({kNumberRule, name, settings});
    RulesByName().emplace(name, factory);
  });
}

StatusOr<std::unique_ptr<const NumberRule>> NumberRule::Create(const PieceSpec& piece) {
  RIVULET_ASSIGN_OR_RETURN(const SettingTable* table, FindSettingTable(kNumberRule, piece.name));
  RIVULET_ASSIGN_OR_RETURN(const Settings settings, Settings::Read(table->settings, piece.settings,
                                                                   fmt::format("{} '{}'", kNumberRule, piece.name)));
  return RulesByName().at(piece.name)(settings);
}

StatusOr<std::unique_ptr<const NumberRule>> NumberRule::For(std::span<const std::string> names,
                                                            const PieceSpec& piece) {
  if (names.empty() && piece.name.empty()) return nullptr;
  RIVULET_ASSIGN_OR_RETURN(auto rule, Create(piece));
  if (!std::ranges::equal(rule->Names(), names)) {
    return InvalidArgument("the plan's tasks report the numbers [{}], and the number rule '{}' changes [{}]",
                           Join(names, ", "), piece.name, Join(rule->Names(), ", "));
  }
  return rule;
}

}  // namespace rivulet
