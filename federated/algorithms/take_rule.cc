#include "federated/algorithms/take_rule.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/base/file_system.h"
#include "engine/base/nearest.h"
#include "federated/local_rules/own_rule.h"
#include "federated/plan/learning_rate.h"

namespace rivulet {
namespace {

using Numbers = std::map<std::string, double>;

// The rule's settings: the scenario's values, and defaults for the others.
StatusOr<Numbers> NumbersOf(const OwnRule& rule, const Algorithm& algorithm, const Scenario& scenario) {
  Numbers numbers = rule.settings();
  for (const auto& [name, value] : numbers) {
    if (FindSetting(algorithm.settings, name) == nullptr) continue;
    return InvalidArgument("its setting '{}' is an option of {} too; give it another name in the rule", name,
                           algorithm.name);
  }
  std::vector<std::string> names;
  for (const auto& [name, value] : numbers) names.push_back(name);
  for (const auto& [name, value] : scenario.algorithm.settings) {
    if (FindSetting(algorithm.settings, name) != nullptr) continue;
    const auto setting = numbers.find(name);
    if (setting == numbers.end()) {
      return NotFound("[algorithm] gives '{}', which is no option of {} and no setting of the rule.{}", name,
                      algorithm.name, DidYouMean(name, names));
    }
    RIVULET_ASSIGN_OR_RETURN(const SettingValue number,
                             Float(name, std::nullopt, "").Take(value, fmt::format("algorithm.{}", name)));
    setting->second = std::get<double>(number);
  }
  if (!rule.reads_learning_rate()) return numbers;
  if (!IsConstant(scenario.client.schedule)) {
    return InvalidArgument("it reads learning_rate, which client.schedule moves; leave the schedule out");
  }
  numbers["learning_rate"] = scenario.client.optimizer.learning_rate;
  return numbers;
}

// The pass that the rule replaces.
StatusOr<PassBuilder*> PassOf(const Algorithm& algorithm, Composition& composition) {
  PassBuilder& pass = composition.passes[0];
  const bool plain = composition.passes.size() == 1 && pass.models == std::vector<ModelInstance>(1) && !pass.loss &&
                     pass.trains == "params" && composition.numbers.empty();
  // An algorithm without options has no option that the rule would disable.
  if (plain && ((!pass.gradient && !pass.at_end) || algorithm.settings.empty())) return &pass;
  return InvalidArgument(
      "{} defines the clients' training; choose an algorithm that allows another local rule, such as \"fedavg\" or "
      "\"fedadam\"",
      algorithm.name);
}

// The rule must write the vectors that the algorithm's server reads, and can read only vectors that it sends.
Status CheckTravels(const OwnRule& rule, const Algorithm& algorithm, const Composition& composition) {
  for (const std::string& name : rule.broadcast()) {
    if (std::ranges::find(composition.broadcast, name) != composition.broadcast.end()) continue;
    return InvalidArgument(
        "it reads broadcast.{}, and the server of {} sends {}; take an algorithm that does, such as "
        "\"scaffold\", which sends c",
        name, algorithm.name, composition.broadcast.empty() ? "nothing beside the model" : composition.broadcast[0]);
  }
  std::vector<std::string> wanted;
  for (const auto& [part, source] : composition.parts) {
    if (source.from.starts_with(kUpdatePrefix)) wanted.push_back(source.from.substr(kUpdatePrefix.size()));
  }
  for (const std::string& name : wanted) {
    if (std::ranges::find(rule.update(), name) != rule.update().end()) continue;
    return InvalidArgument("clients of {} send '{}', which it does not write; give it a value after 'end:': update.{}",
                           algorithm.name, name, name);
  }
  for (const std::string& name : rule.update()) {
    if (std::ranges::find(wanted, name) != wanted.end()) continue;
    return InvalidArgument(
        "it writes update.{}, which the server of {} does not take; keep it as state.{} or leave it out", name,
        algorithm.name, name);
  }
  return absl::OkStatus();
}

Status TakeOpened(const std::shared_ptr<const OwnRule>& rule, const Scenario& scenario, Composition& composition) {
  RIVULET_ASSIGN_OR_RETURN(const Algorithm* algorithm, FindAlgorithm(scenario.algorithm.name));
  RIVULET_ASSIGN_OR_RETURN(const Numbers numbers, NumbersOf(*rule, *algorithm, scenario));
  RIVULET_ASSIGN_OR_RETURN(PassBuilder* const pass, PassOf(*algorithm, composition));
  RIVULET_RETURN_IF_ERROR(CheckTravels(*rule, *algorithm, composition));
  if (!rule->state().empty() && composition.policy.base == TaskPolicy::Base::kLatest) {
    return InvalidArgument(
        "server.base is \"latest\", and its clients keep '{}' from task to task: a client may begin its next task "
        "before its last one is in a version; set it to \"committed\"",
        rule->state()[0]);
  }
  composition.state.clear();
  for (const std::string& name : rule->state()) composition.state.push_back({.name = name});
  pass->own = {.slots = static_cast<int>(rule->memory().size())};
  pass->gradient = [rule, numbers](FlatScope& f) { return rule->Gradient(f, numbers); };
  pass->at_end = nullptr;
  if (rule->ends()) {
    pass->at_end = [rule, numbers](FlatScope& f) { rule->AtEnd(f, numbers); };
  }
  return absl::OkStatus();
}

}  // namespace

SettingValues OptionsOf(const Algorithm& algorithm, const Scenario& scenario) {
  if (scenario.algorithm.graph.empty()) return scenario.algorithm.settings;
  SettingValues options;
  for (const auto& [name, value] : scenario.algorithm.settings) {
    if (FindSetting(algorithm.settings, name) != nullptr) options.emplace(name, value);
  }
  return options;
}

Status TakeRule(const Scenario& scenario, Composition& composition) {
  const std::string& path = scenario.algorithm.graph;
  if (path.empty()) return absl::OkStatus();
  const StatusOr<std::string> bytes = FileSystem::Default().ReadAll(path);
  if (!bytes.ok()) return Annotate(bytes.status(), "algorithm.graph");
  if (bytes->empty()) {
    return InvalidArgument("algorithm.graph: '{}' is empty; write the rule into it (docs/guide/local-rules.md)", path);
  }
  StatusOr<OwnRule> rule = OwnRule::OfFile(*bytes, path);
  if (!rule.ok()) return Annotate(rule.status(), "algorithm.graph");
  return Annotate(TakeOpened(std::make_shared<const OwnRule>(*std::move(rule)), scenario, composition),
                  fmt::format("algorithm.graph: '{}'", path));
}

}  // namespace rivulet
