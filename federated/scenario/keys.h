// The table of scenario keys, the only source of parsing, overrides, errors, canonical TOML and the reference page. A
// new key is a field of the config struct and an entry in its section's file in keys/. Options of registered pieces
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

// A value from a TOML file or an override. A value that no key can hold is described in words ("a table").
struct UnsupportedValue {
  std::string what;
  std::vector<double> numbers = {};  // from an array of decimals, for options that are ratios
};
using Value = std::variant<SettingValue, std::vector<LayerSpec>, UnsupportedValue>;
std::string Describe(const Value& value);  // `the string "x"`

// Accessor of a key's field. Its type is the type of
// the key; its value in a new Scenario is the default.
using Field = std::variant<int64_t& (*)(Scenario&), uint64_t& (*)(Scenario&), double& (*)(Scenario&),
                           bool& (*)(Scenario&), std::string& (*)(Scenario&), std::vector<std::string>& (*)(Scenario&),
                           std::vector<int64_t>& (*)(Scenario&), std::vector<LayerSpec>& (*)(Scenario&)>;
#define RIVULET_FIELD(path) +[](Scenario& s) -> decltype(auto) { return (s.path); }

// A section's choice of a registered piece, with the options given for the piece (piece_keys.h).
struct PieceChoice {
  std::string section;                                 // "data.partition"
  std::string kind;                                    // kind of the pieces' tables: "partitioner"
  std::string selector;                                // the key that chooses: "data.partition.kind"
  std::function<std::string(const Scenario&)> chosen;  // the piece's name; "": none
  std::function<SettingValues&(Scenario&)> settings;   // the given options
  bool or_none = false;                                // whether the choice may be empty

  // The chosen piece's own setting of that name, or null.
  const Setting* OwnOf(const Scenario& scenario, std::string_view option) const;
};

// A setting with its place in a Scenario, its condition and its class.
class Key {
 public:
  using Predicate = std::function<bool(const Scenario&)>;
  Key(std::string name, Field field, std::string example, std::string doc);
  // An option of pieces; `setting` accepts the values of all pieces, and `allowed` describes them in words.
  Key(std::shared_ptr<const PieceChoice> choice, Setting setting, std::string allowed);
  // Restrict the values, as the functions of Setting do.
  Key&& AtLeast(double bound) &&;
  Key&& Between(double least, double most) &&;
  Key&& Above(double bound) &&;
  Key&& Below(double bound) &&;
  Key&& OneOf(std::vector<std::string> choices) &&;
  Key&& Default(std::string in_words) &&;  // the default depends on other keys
  Key&& OrNone() &&;                       // "" means none, and is not written
  // A path: made absolute when set; of the class "place". In a list of NAME=PATH it applies to each path.
  Key&& Path() &&;
  Key&& Operation() &&;  // sets the class "operation"
  // An array of numbers of which only the ratios matter: decimals are converted to integers with the same ratios.
  Key&& Ratios() &&;
  // A probability law (simulations/fleet/law.h), as text; a number means a constant law.
  Key&& Law() &&;
  // The key applies only while `predicate` holds, which depends on `selector`; `in_words` completes "only when …".
  Key&& When(std::string selector, Predicate predicate, std::string in_words) &&;
  // The key also requires a model with a graph, that is, no model.arrays.
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
  // For an option of the chosen piece: checks its value against that piece's range.
  Status CheckOwnRange(std::string_view where, const Scenario& scenario) const;
  void Reset(Scenario& scenario) const;  // to the default
  // For a key with paths: calls `visit` with each given path, which it may change.
  void ForEachPath(Scenario& scenario, const std::function<void(std::string& path)>& visit) const;
  std::string Toml(const Scenario& scenario) const;  // the value as TOML
  // True if the value is "", which leaves the choice to the program that runs the scenario, so nothing is written.
  bool Unset(const Scenario& scenario) const;
  ScenarioKey Public() const;

 private:
  // True for the key that has tables as its value; the code that builds the model checks the keys in them.
  bool HoldsTables() const;
  const SettingValue* GivenOption(const Scenario& scenario) const;  // or null
  void Store(SettingValue value, const std::string& folder, Scenario& scenario) const;

  std::string name_;
  Field field_ = static_cast<int64_t& (*)(Scenario&)>(nullptr);
  std::shared_ptr<const PieceChoice> choice_;  // for an option, which has no field
  Setting setting_;
  std::string allowed_;  // for an option
  KeyClass key_class_ = KeyClass::kPlan;
  bool path_ = false, or_none_ = false, law_ = false, ratios_ = false;
  std::string selector_;
  Predicate predicate_;
  std::string applies_when_;
};

// keys/: one file per section, in the order of the page.
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
// " Did you mean 'run.rounds'?" or "" (suggest_key.h); suggests a table if `unknown` is a table.
std::string SuggestKey(std::string_view unknown, bool is_table);
std::string AbsolutePath(std::string_view path, const std::string& folder);

// One `key = value` of a file or an override.
struct Entry {
  std::string key;  // dotted
  Value value;
  bool is_table = false;  // a [table] or inline table; its keys follow as separate entries
  std::string where;      // "FILE:3:10" or "--set"
  bool is_override = false;
};
// All tables and values of a TOML text; a table precedes its keys. INVALID_ARGUMENT with FILE:line:column.
StatusOr<std::vector<Entry>> ReadToml(const std::string& text, const std::string& path);
// The entries of `--set key=value`.
std::vector<Entry> ReadOverride(const std::string& key, const std::string& value);

}  // namespace rivulet::scenario
