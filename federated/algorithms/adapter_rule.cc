#include "federated/algorithms/adapter_rule.h"

#include <algorithm>
#include <map>

#include "federated/settings/registered_piece.h"
#include "federated/settings/setting_tables.h"

namespace rivulet {
namespace {

constexpr char kAdapterRule[] = "adapter rule";

// Created at first use and never destroyed, like the registry of algorithms.
std::map<std::string, AdapterRule, std::less<>>& AdapterRulesByName() {
  static auto* const rules = new std::map<std::string, AdapterRule, std::less<>>;
  return *rules;
}

}  // namespace

AdapterRuleRegistration::AdapterRuleRegistration(AdapterRule rule) {
  const std::string name = rule.name;
  RegisterPiece(kAdapterRule, name, [rule = std::move(rule)] {
    SettingTableRegistration({.kind = kAdapterRule, .name = rule.name, .settings = {}, .doc = rule.doc});
    AdapterRulesByName().emplace(rule.name, rule);
  });
}

Status ComposeAdapters(const Scenario& scenario, const ModelLayout& layout, Composition& composition) {
  const std::string& given = scenario.server.lora;
  const std::vector<AdapterPair> pairs = AdapterPairsOf(layout);
  const std::vector<std::string> in_base = AdapterHalvesInBase(layout);
  if (pairs.empty() && in_base.empty()) {
    if (given.empty()) return absl::OkStatus();
    return InvalidArgument(
        "server.lora is \"{}\", and the model has no adapters; give it a table [model.lora], or a file of adapters as "
        "model.arrays",
        given);
  }
  const bool noisy = composition.noise.any() || scenario.privacy.noise > 0;
  const auto both = std::ranges::find_if(pairs, &AdapterPair::trains_both);
  if (noisy && both != pairs.end()) {
    return InvalidArgument(
        "privacy adds noise to '{}' and to '{}', whose product multiplies it; set model.lora.freeze_a = true, so that "
        "B alone is trained",
        both->a->name, both->b->name);
  }
  const auto rule = AdapterRulesByName().find(given.empty() ? "average" : given);
  if (rule == AdapterRulesByName().end())
    return InvalidArgument("server.lora is \"{}\", which is none of {}", given,
                           NamesInWords(SettingTableNames(kAdapterRule)));
  return rule->second.compose({scenario, pairs, in_base}, composition);
}

}  // namespace rivulet
