// Scenario of a resumed run, or of a run with a plan that was built elsewhere: keys of class "plan" keep their stored
// values, and other keys have the values that are given now.
#include <optional>

#include "federated/scenario/keys.h"
#include "federated/scenario/scenario.h"

namespace rivulet {
namespace {

using scenario::Key;
using scenario::Keys;

// Operation keys in plans that protect single examples: clients account for their budgets with them.
bool IsBudgetInPlan(const Scenario& scenario, const std::string& key) {
  return scenario.privacy.unit == "example" && (key == "privacy.epsilon" || key == "privacy.delta");
}

// The values of all keys of class "plan" as TOML. For a file that the plan is built from, it records only whether there
// is one: its path may change.
std::map<std::string, std::string> PlanKeysOf(const Scenario& scenario) {
  std::map<std::string, std::string> values;
  for (const Key& key : Keys()) {
    if (!key.Applies(scenario)) continue;
    const std::string value = key.Toml(scenario);
    switch (key.key_class()) {
      case KeyClass::kPlan:
        values[key.name()] = value;
        break;
      case KeyClass::kPlace:
        if (!key.section().starts_with("data")) values[key.name()] = value == "\"\"" ? "absent" : "a file";
        break;
      case KeyClass::kOperation:
        if (IsBudgetInPlan(scenario, key.name())) values[key.name()] = value;
        break;
    }
  }
  for (const auto& [name, value] : scenario.algorithm.settings) values["algorithm." + name] = ToToml(value);
  for (const auto& [name, value] : scenario.selection.settings) values["selection." + name] = ToToml(value);
  for (const auto& [name, value] : scenario.attack.settings) values["attack." + name] = ToToml(value);
  return values;
}

std::string ValueOf(const std::map<std::string, std::string>& values, const std::string& key) {
  const auto found = values.find(key);
  return found == values.end() ? "absent" : found->second;
}

// The first key of class "plan" with a different value.
struct Difference {
  std::string key, was, is;
};
std::optional<Difference> FirstDifference(const Scenario& stored, const Scenario& now, bool only_given) {
  const std::map<std::string, std::string> before = PlanKeysOf(stored), after = PlanKeysOf(now);
  std::map<std::string, std::string> all = before;
  all.insert(after.begin(), after.end());
  for (const auto& [key, _] : all) {
    if (only_given && !now.given.contains(key)) continue;
    const std::string was = ValueOf(before, key), is = ValueOf(after, key);
    // 0 means all clients: the run has stored their number.
    if (only_given && key == "data.partition.clients" && is == "0") continue;
    if (was != is) return Difference{key, was, is};
  }
  return std::nullopt;
}

}  // namespace

Status CheckSamePlanKeys(const Scenario& stored, const Scenario& now, bool only_given) {
  const std::optional<Difference> other = FirstDifference(stored, now, only_given);
  if (!other) return absl::OkStatus();
  if (IsBudgetInPlan(stored, other->key)) {
    return FailedPrecondition(
        "{} was {} when the run began, and is {} now. With privacy.unit = \"example\" it is in the plan that clients "
        "have, and each keeps its account by it; set it back, or start a new run",
        other->key, other->was, other->is);
  }
  return FailedPrecondition(
      "{} was {} when the run began, and is {} now. It affects the run's results (its class is \"plan\"); only keys of "
      "the classes \"operation\" and \"place\" may change: start a new run",
      other->key, other->was, other->is);
}

StatusOr<Scenario> ScenarioOfPlan(const std::string& plan_keys, const std::string& path, const Scenario& now) {
  RIVULET_ASSIGN_OR_RETURN(const Scenario built, Scenario::ParseStored(plan_keys, path));
  if (const auto other = FirstDifference(built, now, true); other) {
    return FailedPrecondition(
        "{} was {} when the plan was built ({}), and is {} in the scenario; leave it away, or build the plan again",
        other->key, other->was, path, other->is);
  }
  std::vector<std::pair<std::string, std::string>> overrides;
  for (const Key& key : Keys()) {
    if (key.key_class() == KeyClass::kPlan || !key.Applies(now)) continue;
    const std::string value = key.Toml(now);
    if (key.key_class() == KeyClass::kOperation || value != "\"\"") overrides.emplace_back(key.name(), value);
  }
  RIVULET_ASSIGN_OR_RETURN(Scenario scenario, Scenario::ParseStored(plan_keys, path, overrides));
  scenario.given = now.given;
  scenario.path = now.path;
  scenario.folder = now.folder;
  return scenario;
}

// Parses the stored configuration with overrides, so that the result is checked like any scenario.
StatusOr<Scenario> ScenarioToResume(const std::string& stored_toml, const std::string& path, const Scenario& now) {
  RIVULET_ASSIGN_OR_RETURN(const Scenario stored, Scenario::ParseStored(stored_toml, path));
  RIVULET_RETURN_IF_ERROR(CheckSamePlanKeys(stored, now, true));
  std::vector<std::pair<std::string, std::string>> overrides;
  for (const Key& key : Keys()) {
    const auto given = now.given.find(key.name());
    bool changes = false;
    switch (key.key_class()) {
      case KeyClass::kPlan:
        break;
      case KeyClass::kOperation:
        // run.rounds usually comes from the command line; a file with a lower value would end the run.
        changes = given != now.given.end() && (given->second || key.name() != "run.rounds");
        break;
      case KeyClass::kPlace:
        changes = key.Applies(now) && key.Toml(now) != "\"\"";
    }
    if (changes) overrides.emplace_back(key.name(), key.Toml(now));
  }
  RIVULET_ASSIGN_OR_RETURN(Scenario resumed, Scenario::ParseStored(stored_toml, path, overrides));
  resumed.given = now.given;
  resumed.path = now.path;
  resumed.folder = now.folder;
  return resumed;
}

}  // namespace rivulet
