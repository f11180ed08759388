// The one table of scenario keys, the source of parsing, overrides, errors, canonical TOML and the reference page. A
// new key is a field of the config struct and an entry of its section's file in keys/. Options of registered pieces
// need neither (piece_keys.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/setting.h"
#include "federated/scenario/scenario.h"

namespace rivulet::scenario {

// A value as a TOML file or an override gives it. Anything no key can hold is described in words ("a table").
struct UnsupportedValue {
  std::string what;
  std::vector<double> numbers = {};  // of an array of decimals, which options that are ratios take
};
using Value = std::variant<SettingValue, std::vector<LayerSpec>, UnsupportedValue>;
std::string Describe(const Value& value);  // `the string "x"`

// Where a key's value lives. The type of the reference is the type of the key; what it is in a new Scenario is the
// default.
using Field = std::variant<int64_t& (*)(Scenario&), uint64_t& (*)(Scenario&), double& (*)(Scenario&),
                           bool& (*)(Scenario&), std::string& (*)(Scenario&), std::vector<std::string>& (*)(Scenario&),
                           std::vector<int64_t>& (*)(Scenario&), std::vector<LayerSpec>& (*)(Scenario&)>;
#define RIVULET_FIELD(path) +[](Scenario& s) -> decltype(auto) { return (s.path); }

// Where a section's choice of a registered piece is, beside which the options given for it stand (piece_keys.h).
struct PieceChoice {
  std::string section;                                 // "data.partition"
  std::string kind;                                    // of the pieces' tables: "partitioner"
  std::string selector;                                // the key that chooses: "data.partition.kind"
  std::function<std::string(const Scenario&)> chosen;  // the piece's name; "": none
  std::function<SettingValues&(Scenario&)> settings;   // the options that are given
  bool or_none = false;                                // whether there may be none

  // The chosen piece's own setting of that name, or null.
  const Setting* OwnOf(const Scenario& scenario, std::string_view option) const;
};

// A setting that knows where in a Scenario its value lives, when it applies and what class it is of.
class Key {
 public:
  using Predicate = std::function<bool(const Scenario&)>;
  Key(std::string name, Field field, std::string example, std::string doc);
  // An option of pieces; `setting` takes what any of them takes, and `allowed` says in words what that is.
  Key(std::shared_ptr<const PieceChoice> choice, Setting setting, std::string allowed);
  // As Setting has them.
  Key&& AtLeast(double bound) &&;
  Key&& Between(double least, double most) &&;
  Key&& Above(double bound) &&;
  Key&& Below(double bound) &&;
  Key&& OneOf(std::vector<std::string> choices) &&;
  Key&& Default(std::string in_words) &&;  // where it depends on other keys
  Key&& OrNone() &&;                       // "" is none, which is not written down
  // Made absolute when set; of the class "place". Of a list of NAME=PATH each path is.
  Key&& Path() &&;
  Key&& Operation() &&;  // of that class
  // An array of numbers of which ratios alone count: decimals are taken as whole numbers of the same ratios.
  Key&& Ratios() &&;
  // A law of chance (simulations/fleet/law.h), as text; a number is the law that is always that.
  Key&& Law() &&;
  // Applies only while `predicate` holds, which `selector` decides; `in_words` completes "only when …".
  Key&& When(std::string selector, Predicate predicate, std::string in_words) &&;
  // Applies, beside what When says, only where the model has a graph, that is without model.arrays.
  Key&& OfGraphs() &&;

  const std::string& name() const { return name_; }
  std::string_view section() const { return std::string_view(name_).substr(0, name_.rfind('.')); }
  const std::string& leaf() const { return setting_.name; }
  KeyClass key_class() const { return key_class_; }
  const std::string& selector() const { return selector_; }
  const std::string& applies_when() const { return applies_when_; }
  bool Applies(const Scenario& scenario) const { return predicate_ == nullptr || predicate_(scenario); }

  // Checks `value`'s type and range and stores it; relative paths start at `folder`. `where` completes "KEY in …".
  Status Set(const Value& value, std::string_view where, const std::string& folder, Scenario& scenario) const;
  // Of an option of the chosen piece: whether its value is in the range that this piece has.
  Status CheckOwnRange(std::string_view where, const Scenario& scenario) const;
  void Reset(Scenario& scenario) const;  // to the default
  // Of a key that holds paths: each that is given, which `visit` may change.
  void ForEachPath(Scenario& scenario, const std::function<void(std::string& path)>& visit) const;
  std::string Toml(const Scenario& scenario) const;  // the value as TOML
  // Whether the value is the "" that leaves a choice to whoever runs the scenario: there is nothing to be written down.
  bool Unset(const Scenario& scenario) const;
  ScenarioKey Public() const;

 private:
  // The one key whose value is tables, whose own keys are checked by who builds the model.
  bool HoldsTables() const;
  const SettingValue* GivenOption(const Scenario& scenario) const;  // or null
  void Store(SettingValue value, const std::string& folder, Scenario& scenario) const;

  std::string name_;
  Field field_ = static_cast<int64_t& (*)(Scenario&)>(nullptr);
  std::shared_ptr<const PieceChoice> choice_;  // of an option, which has no field
  Setting setting_;
  std::string allowed_;  // of an option
  KeyClass key_class_ = KeyClass::kPlan;
  bool path_ = false, or_none_ = false, law_ = false, ratios_ = false;
  std::string selector_;
  Predicate predicate_;
  std::string applies_when_;
};

// keys/: a file a section, in the order of the page.
std::vector<Key> RunKeys();
std::vector<Key> ModelKeys();
std::vector<Key> DataKeys();
std::vector<Key> ClientKeys();
std::vector<Key> AlgorithmKeys();
std::vector<Key> SelectionKeys();
std::vector<Key> PrivacyKeys();
std::vector<Key> SecureKeys();
std::vector<Key> UpdateKeys();
std::vector<Key> ServerKeys();
std::vector<Key> EvaluationKeys();
std::vector<Key> AttackKeys();
std::vector<Key> DevicesKeys();

const std::vector<Key>& Keys();  // grouped by section
const Key* FindKey(std::string_view name);
bool IsSection(std::string_view name);  // "data", "data.partition"
// " Did you mean 'run.rounds'?" or "" (suggest_key.h); of a table, where `unknown` is one.
std::string SuggestKey(std::string_view unknown, bool is_table);
std::string AbsolutePath(std::string_view path, const std::string& folder);

// One `key = value` of a file or an override.
struct Entry {
  std::string key;  // dotted
  Value value;
  bool is_table = false;  // a [table] or inline table; its keys follow as entries of their own
  std::string where;      // "FILE:3:10" or "--set"
  bool is_override = false;
};
// Every table and value of a TOML text, tables before what they hold. INVALID_ARGUMENT with FILE:line:column.
StatusOr<std::vector<Entry>> ReadToml(const std::string& text, const std::string& path);
// The entries of `--set key=value`.
std::vector<Entry> ReadOverride(const std::string& key, const std::string& value);

}  // namespace rivulet::scenario
