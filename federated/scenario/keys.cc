// The table as a whole: finding keys, suggesting them, and its page.
#include "federated/scenario/keys.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/base/nearest.h"

namespace rivulet::scenario {

const std::vector<Key>& Keys() {
  static const auto* const keys = [] {
    auto* all = new std::vector<Key>;
    for (const auto section : {RunKeys, ModelKeys, DataKeys, ClientKeys, AlgorithmKeys, ServerKeys, SelectionKeys,
                               PrivacyKeys, UpdateKeys, EvaluationKeys, AttackKeys, DevicesKeys})
      std::ranges::move(section(), std::back_inserter(*all));
    return all;
  }();
  return *keys;
}

namespace {

// Earlier names of keys, which are read and not shown.
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

namespace {

// What other frameworks and papers call it.
struct OtherName {
  std::string_view leaf, key;
};
constexpr OtherName kOtherNames[] = {{"lr", "client.optimizer.learning_rate"},
                                     {"client_lr", "client.optimizer.learning_rate"},
                                     {"client_learning_rate", "client.optimizer.learning_rate"},
                                     {"server_lr", "server.learning_rate"},
                                     {"server_learning_rate", "server.learning_rate"},
                                     {"num_rounds", "run.rounds"},
                                     {"total_rounds", "run.rounds"},
                                     {"random_seed", "run.seed"},
                                     {"num_clients", "data.partition.clients"},
                                     {"total_clients", "data.partition.clients"},
                                     {"cohort_size", "server.clients_per_round"},
                                     {"local_epochs", "client.epochs"},
                                     {"num_epochs", "client.epochs"},
                                     {"betas", "client.optimizer.beta1"},
                                     {"eps", "client.optimizer.epsilon"},
                                     {"timeout", "server.deadline"},
                                     {"algorithm", "algorithm.name"},
                                     {"strategy", "algorithm.name"}};

}  // namespace

std::string SuggestKey(std::string_view unknown) {
  const size_t dot = unknown.rfind('.');
  const std::string_view leaf = unknown.substr(dot + 1);
  const std::string_view table = dot == std::string_view::npos ? std::string_view() : unknown.substr(0, dot);
  // The right word in the wrong table is the commonest slip; in a table that there is not, it means something else.
  const bool known_table = table.empty() || IsSection(table);
  std::vector<std::string> names;
  for (const Key& key : Keys()) {
    if (known_table && key.leaf() == leaf) return fmt::format(" Did you mean '{}'?", key.name());
    names.push_back(key.name());
  }
  if (known_table) {
    for (const OtherName& other : kOtherNames)
      if (other.leaf == leaf && FindKey(other.key) != nullptr) return fmt::format(" Did you mean '{}'?", other.key);
  }
  for (const Key& key : Keys()) {
    for (size_t dot = key.name().find('.'); dot != std::string::npos; dot = key.name().find('.', dot + 1)) {
      const std::string section = key.name().substr(0, dot);
      if (std::find(names.begin(), names.end(), section) == names.end()) names.push_back(section);
    }
  }
  return DidYouMean(unknown, names);
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
