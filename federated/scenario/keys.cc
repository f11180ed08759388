// The table of all keys: lookups, and the reference page.
#include "federated/scenario/keys.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace rivulet::scenario {

const std::vector<Key>& Keys() {
  static const auto* const keys = [] {
    auto* all = new std::vector<Key>;
    for (const auto section : {RunKeys, ModelKeys, DataKeys, ClientKeys, AlgorithmKeys, ServerKeys, SelectionKeys,
                               PrivacyKeys, SecureKeys, UpdateKeys, EvaluationKeys, AttackKeys, DevicesKeys})
      std::ranges::move(section(), std::back_inserter(*all));
    return all;
  }();
  return *keys;
}

namespace {

// Former names of keys, which are accepted but not documented.
constexpr std::pair<std::string_view, std::string_view> kFormerNames[] = {
    {"data.image_feature", "data.input_feature"},
};

}  // namespace

const Key* FindKey(std::string_view name) {
  for (const auto& [former, today] : kFormerNames)
    if (name == former) name = today;
  for (const Key& key : Keys()) {
    if (key.name() == name) return &key;
  }
  return nullptr;
}

bool IsSection(std::string_view name) {
  return std::any_of(Keys().begin(), Keys().end(), [&](const Key& key) {
    return key.name().size() > name.size() && key.name().starts_with(name) && key.name()[name.size()] == '.';
  });
}

}  // namespace rivulet::scenario

namespace rivulet {

std::string_view Name(KeyClass key_class) {
  static constexpr std::string_view kNames[] = {"plan", "operation", "place"};
  return kNames[static_cast<size_t>(key_class)];
}

const std::vector<ScenarioKey>& ScenarioKeys() {
  static const auto* const keys = [] {
    auto* all = new std::vector<ScenarioKey>;
    for (const scenario::Key& key : scenario::Keys()) all->push_back(key.Public());
    return all;
  }();
  return *keys;
}

std::string ScenarioReference() {
  std::string page;
  std::string_view section;
  for (const scenario::Key& key : scenario::Keys()) {
    const ScenarioKey shown = key.Public();
    if (key.section() != section) {
      section = key.section();
      page += fmt::format(
          "\n## [{}]\n\n| key | class | type | default | allowed | meaning | example "
          "|\n|---|---|---|---|---|---|---|\n",
          section);
    }
    const std::string when = shown.applies_when.empty() ? "" : fmt::format(" Only when {}.", shown.applies_when);
    page += fmt::format("| `{}` | {} | {} | {} | {} | {}{} | `{} = {}` |\n", shown.name, Name(shown.key_class),
                        shown.type, shown.default_value, shown.allowed.empty() ? "any" : shown.allowed, shown.doc, when,
                        key.leaf(), shown.example);
  }
  return page;
}

}  // namespace rivulet
