// A setting: one named value with its type, range, default and meaning. Scenario keys, the keys of a layer and the
// options of an optimiser or an algorithm are tables of settings. Checks, error messages, TOML and reference pages
// derive from the table, so that a new setting is one entry and its test.
//
//   const std::vector<Setting> kTable = {Integer("units", std::nullopt, "Width of the result").AtLeast(1),
//                                        Text("padding", "valid", "What is around").OneOf({"valid", "same"})};
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/status.h"

namespace rivulet {

// As TOML gives it.
using SettingValue = std::variant<int64_t, double, bool, std::string, std::vector<int64_t>, std::vector<std::string>>;
using SettingValues = std::map<std::string, SettingValue, std::less<>>;  // by name
std::string Describe(const SettingValue& value);                         // `the string "x"`, "the integer 3"
std::string ToToml(const SettingValue& value);  // 0.1, "x", [1, 2]; reads back as the same value
std::string TomlString(std::string_view text);  // quoted and escaped

enum class SettingType : uint8_t { kInteger, kFloat, kBoolean, kString, kIntegers, kStrings };
std::string_view Name(SettingType type);  // "integer", "float", …

struct Setting {
  std::string name;
  SettingType type = SettingType::kFloat;
  std::optional<SettingValue> default_value = {};  // nullopt: must be given
  std::string doc;
  std::string example = {};           // TOML of another value than the default
  std::string default_in_words = {};  // where it depends on others
  // Of numbers, and of each number of a list. Floats are finite in any case.
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool minimum_excluded = false, maximum_excluded = false;
  size_t least_items = 0, most_items = std::numeric_limits<size_t>::max();  // of lists
  // Of strings; none: any. "" among them is a default that is not shown.
  std::vector<std::string> choices = {};

  // Tables are written with these: Float("mu", 0.01, "Weight of …").AtLeast(0).
  Setting&& AtLeast(double bound) &&;
  Setting&& Above(double bound) &&;  // exclusive
  Setting&& Below(double bound) &&;  // exclusive
  Setting&& Between(double least, double most) &&;
  Setting&& Items(size_t least, size_t most) &&;
  Setting&& OneOf(std::vector<std::string> names) &&;

  // The value in this setting's own type: integers widen to floats, and to a list of one where integers are wanted.
  // `subject` begins the sentence of a refusal: "run.rounds in s.toml:3:10", "layer 2 ('dense1', dense): units".
  // INVALID_ARGUMENT says what is wanted and what was given: "… must be at least 1, not 0".
  StatusOr<SettingValue> Take(const SettingValue& given, std::string_view subject) const;
  // The refusal of what is no value of this type, described in words: "… must be an integer, not a date".
  Status WrongType(std::string_view subject, std::string_view given) const;
  std::string Allowed() const;  // "at least 1", "\"iid\", \"shards\""; "" for anything

 private:
  Status CheckNumber(double number, std::string_view shown, std::string_view subject) const;
  Status CheckItems(size_t items, std::string_view subject) const;
};

Setting Integer(std::string name, std::optional<int64_t> default_value, std::string doc);
Setting Float(std::string name, std::optional<double> default_value, std::string doc);
Setting Flag(std::string name, std::optional<bool> default_value, std::string doc);
Setting Text(std::string name, std::optional<std::string> default_value, std::string doc);
Setting Integers(std::string name, std::optional<std::vector<int64_t>> default_value, std::string doc);

// The setting of that name, or null.
const Setting* FindSetting(std::span<const Setting> table, std::string_view name);

// The values of one table: every setting of it is there, checked and completed by defaults.
class Settings {
 public:
  // `owner` is who has the table, for messages: "layer 2 ('dense1', dense)". INVALID_ARGUMENT as Setting::Take says,
  // and for a name that the table has not (names the nearest) or one that must be given and is not.
  static StatusOr<Settings> Read(std::span<const Setting> table, const SettingValues& given, std::string_view owner);

  // A name that the table has, with its type there.
  int64_t integer(std::string_view name) const { return std::get<int64_t>(at(name)); }
  double number(std::string_view name) const { return std::get<double>(at(name)); }
  bool flag(std::string_view name) const { return std::get<bool>(at(name)); }
  const std::string& text(std::string_view name) const { return std::get<std::string>(at(name)); }
  const std::vector<int64_t>& integers(std::string_view name) const { return std::get<std::vector<int64_t>>(at(name)); }
  const SettingValues& values() const { return values_; }

 private:
  const SettingValue& at(std::string_view name) const;
  SettingValues values_;
};

}  // namespace rivulet
