#include "engine/base/setting.h"

#include <algorithm>
#include <cmath>

#include "engine/base/check.h"
#include "engine/base/join.h"
#include "engine/base/nearest.h"

namespace rivulet {
namespace {

std::string PlainNumber(double number) {
  if (number == std::floor(number) && std::abs(number) < 1e15) return fmt::format("{}", static_cast<int64_t>(number));
  return fmt::format("{}", number);
}

std::string TomlFloat(double number) {
  std::string text = fmt::format("{}", number);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string QuotedChoices(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) {
    if (name.empty()) continue;
    if (!list.empty()) list += ", ";
    list += TomlString(name);
  }
  return list;
}

// Long strings would bury the sentence they stand in.
std::string ShortenedText(std::string_view text) {
  constexpr size_t kMost = 60;
  if (text.size() <= kMost) return TomlString(text);
  size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not inside a character
  return TomlString(fmt::format("{}…", text.substr(0, end)));
}

// TOML does not tell what an empty array is of.
bool IsEmptyList(const SettingValue& value) {
  const auto* integers = std::get_if<std::vector<int64_t>>(&value);
  const auto* strings = std::get_if<std::vector<std::string>>(&value);
  return (integers != nullptr && integers->empty()) || (strings != nullptr && strings->empty());
}

std::string_view WantedOf(SettingType type) {
  static constexpr std::string_view kWanted[] = {
      "an integer",         "a number", "true or false", "a string", "an integer or an array of integers",
      "an array of strings"};
  return kWanted[static_cast<size_t>(type)];
}

template <typename T>
Setting Make(std::string name, SettingType type, std::optional<T> default_value, std::string doc) {
  Setting setting{.name = std::move(name), .type = type, .doc = std::move(doc)};
  if (default_value.has_value()) setting.default_value = *std::move(default_value);
  return setting;
}

// Kernels compute in 32 bits and flush what is below their normal numbers: there a tiny epsilon is 0, and a beta just
// below 1 is 1, and every client would fail with a NaN that names no key.
Status CheckSingle(const Setting& setting, double number, std::string_view subject) {
  const std::string shown = PlainNumber(number);
  const float single = static_cast<float>(number);
  if (number != 0 && std::abs(single) < std::numeric_limits<float>::min())
    return InvalidArgument("{} must be 0 or at least 1.2e-38 in size, not {}, which is 0 as a 32-bit float", subject,
                           shown);
  if (std::isinf(single))
    return InvalidArgument("{} must be at most 3.4e38 in size, not {}, which is beyond 32-bit floats", subject, shown);
  if ((setting.minimum_excluded && single <= static_cast<float>(setting.minimum)) ||
      (setting.maximum_excluded && single >= static_cast<float>(setting.maximum)))
    return InvalidArgument("{} must be {}, not {}, which is {} as a 32-bit float", subject, setting.Allowed(), shown,
                           PlainNumber(single));
  return absl::OkStatus();
}

}  // namespace

std::string TomlString(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        quoted += "\\\"";
        break;
      case '\\':
        quoted += "\\\\";
        break;
      case '\n':
        quoted += "\\n";
        break;
      case '\t':
        quoted += "\\t";
        break;
      case '\r':
        quoted += "\\r";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
          quoted += fmt::format("\\u{:04X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
        } else {
          quoted += c;
        }
    }
  }
  return quoted + '"';
}

std::string Describe(const SettingValue& value) {
  struct Visitor {
    std::string operator()(int64_t v) const { return fmt::format("the integer {}", v); }
    std::string operator()(double v) const { return fmt::format("the float {}", TomlFloat(v)); }
    std::string operator()(bool v) const { return fmt::format("the boolean {}", v); }
    std::string operator()(const std::string& v) const { return fmt::format("the string {}", ShortenedText(v)); }
    std::string operator()(const std::vector<int64_t>&) const { return "an array of integers"; }
    std::string operator()(const std::vector<std::string>&) const { return "an array of strings"; }
  };
  return std::visit(Visitor{}, value);
}

std::string ToToml(const SettingValue& value) {
  struct Visitor {
    std::string operator()(int64_t v) const { return fmt::format("{}", v); }
    std::string operator()(double v) const { return TomlFloat(v); }
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(const std::string& v) const { return TomlString(v); }
    std::string operator()(const std::vector<int64_t>& v) const { return fmt::format("[{}]", Join(v, ", ")); }
    std::string operator()(const std::vector<std::string>& v) const {
      std::string list;
      for (const std::string& text : v) list += (list.empty() ? "" : ", ") + TomlString(text);
      return fmt::format("[{}]", list);
    }
  };
  return std::visit(Visitor{}, value);
}

std::string_view Name(SettingType type) {
  static constexpr std::string_view kNames[] = {"integer",           "float",           "boolean", "string",
                                                "array of integers", "array of strings"};
  return kNames[static_cast<size_t>(type)];
}

Setting Integer(std::string name, std::optional<int64_t> default_value, std::string doc) {
  return Make(std::move(name), SettingType::kInteger, default_value, std::move(doc));
}
Setting Float(std::string name, std::optional<double> default_value, std::string doc) {
  return Make(std::move(name), SettingType::kFloat, default_value, std::move(doc));
}
Setting Flag(std::string name, std::optional<bool> default_value, std::string doc) {
  return Make(std::move(name), SettingType::kBoolean, default_value, std::move(doc));
}
Setting Text(std::string name, std::optional<std::string> default_value, std::string doc) {
  return Make(std::move(name), SettingType::kString, std::move(default_value), std::move(doc));
}
Setting Integers(std::string name, std::optional<std::vector<int64_t>> default_value, std::string doc) {
  return Make(std::move(name), SettingType::kIntegers, std::move(default_value), std::move(doc));
}

Setting&& Setting::AtLeast(double bound) && {
  minimum = bound;
  minimum_excluded = false;
  return std::move(*this);
}

Setting&& Setting::Above(double bound) && {
  minimum = bound;
  minimum_excluded = true;
  return std::move(*this);
}

Setting&& Setting::Below(double bound) && {
  maximum = bound;
  maximum_excluded = true;
  return std::move(*this);
}

Setting&& Setting::Between(double least, double most) && {
  minimum = least;
  maximum = most;
  minimum_excluded = maximum_excluded = false;
  return std::move(*this);
}

Setting&& Setting::Items(size_t least, size_t most) && {
  least_items = least;
  most_items = most;
  return std::move(*this);
}

Setting&& Setting::OneOf(std::vector<std::string> names) && {
  choices = std::move(names);
  return std::move(*this);
}

std::string Setting::Allowed() const {
  if (!choices.empty()) return QuotedChoices(choices);
  std::string low, high;
  if (std::isfinite(minimum)) low = fmt::format("{} {}", minimum_excluded ? "above" : "at least", PlainNumber(minimum));
  if (std::isfinite(maximum)) high = fmt::format("{} {}", maximum_excluded ? "below" : "at most", PlainNumber(maximum));
  if (low.empty() || high.empty()) return low + high;
  return low + " and " + high;
}

Status Setting::WrongType(std::string_view subject, std::string_view given) const {
  return InvalidArgument("{} must be {}, not {}", subject, WantedOf(type), given);
}

Status Setting::CheckNumber(double number, std::string_view shown, std::string_view subject) const {
  if (!std::isfinite(number)) return InvalidArgument("{} must be a finite number, not {}", subject, shown);
  const bool low = minimum_excluded ? number > minimum : number >= minimum;
  const bool high = maximum_excluded ? number < maximum : number <= maximum;
  if (low && high) return absl::OkStatus();
  return InvalidArgument("{} must be {}, not {}", subject, Allowed(), shown);
}

Status Setting::CheckItems(size_t items, std::string_view subject) const {
  if (items < least_items)
    return InvalidArgument("{} must hold {} value{} or more, not {}", subject, least_items, least_items == 1 ? "" : "s",
                           items);
  if (items > most_items)
    return InvalidArgument("{} must hold {} value{} at most, not {}", subject, most_items, most_items == 1 ? "" : "s",
                           items);
  return absl::OkStatus();
}

StatusOr<SettingValue> Setting::Take(const SettingValue& given, std::string_view subject) const {
  const auto* integer = std::get_if<int64_t>(&given);
  switch (type) {
    case SettingType::kInteger:
      if (integer == nullptr) return WrongType(subject, Describe(given));
      RIVULET_RETURN_IF_ERROR(CheckNumber(static_cast<double>(*integer), fmt::format("{}", *integer), subject));
      return given;
    case SettingType::kFloat: {
      const auto* number = std::get_if<double>(&given);
      if (integer == nullptr && number == nullptr) return WrongType(subject, Describe(given));
      const double real = integer != nullptr ? static_cast<double>(*integer) : *number;
      RIVULET_RETURN_IF_ERROR(CheckNumber(real, PlainNumber(real), subject));
      RIVULET_RETURN_IF_ERROR(CheckSingle(*this, real, subject));
      return real;
    }
    case SettingType::kBoolean:
      if (!std::holds_alternative<bool>(given)) return WrongType(subject, Describe(given));
      return given;
    case SettingType::kString: {
      const auto* text = std::get_if<std::string>(&given);
      if (text == nullptr) return WrongType(subject, Describe(given));
      if (text->find('\0') != std::string::npos) return InvalidArgument("{} must not contain a zero byte", subject);
      if (choices.empty() || std::ranges::find(choices, *text) != choices.end()) return given;
      const size_t named = choices.size() - static_cast<size_t>(std::ranges::count(choices, ""));
      return InvalidArgument("{} must be {}{}, not {}.{}", subject, named > 1 ? "one of " : "", QuotedChoices(choices),
                             ShortenedText(*text), DidYouMean(*text, choices));
    }
    case SettingType::kIntegers: {
      std::vector<int64_t> list;
      if (const auto* integers = std::get_if<std::vector<int64_t>>(&given)) {
        list = *integers;
      } else if (integer != nullptr) {
        list = {*integer};
      } else if (!IsEmptyList(given)) {
        return WrongType(subject, Describe(given));
      }
      RIVULET_RETURN_IF_ERROR(CheckItems(list.size(), subject));
      for (const int64_t number : list)
        RIVULET_RETURN_IF_ERROR(CheckNumber(static_cast<double>(number), fmt::format("{}", number), subject));
      return list;
    }
    case SettingType::kStrings: {
      const auto* strings = std::get_if<std::vector<std::string>>(&given);
      if (strings == nullptr && !IsEmptyList(given)) return WrongType(subject, Describe(given));
      std::vector<std::string> list = strings == nullptr ? std::vector<std::string>() : *strings;
      RIVULET_RETURN_IF_ERROR(CheckItems(list.size(), subject));
      for (const std::string& text : list)
        if (text.empty() || text.find('\0') != std::string::npos)
          return InvalidArgument("{} must hold names, not {}", subject, TomlString(text));
      return list;
    }
  }
  return Internal("{} has a type that there is not", subject);
}

const Setting* FindSetting(std::span<const Setting> table, std::string_view name) {
  const auto found = std::ranges::find(table, name, &Setting::name);
  return found == table.end() ? nullptr : &*found;
}

StatusOr<Settings> Settings::Read(std::span<const Setting> table, const SettingValues& given, std::string_view owner) {
  Settings settings;
  std::vector<std::string> names;
  for (const Setting& setting : table) {
    names.push_back(setting.name);
    const auto found = given.find(setting.name);
    if (found != given.end()) {
      RIVULET_ASSIGN_OR_RETURN(SettingValue value,
                               setting.Take(found->second, fmt::format("{}: {}", owner, setting.name)));
      settings.values_.emplace(setting.name, std::move(value));
    } else if (setting.default_value.has_value()) {
      settings.values_.emplace(setting.name, *setting.default_value);
    } else {
      const std::string allowed = setting.Allowed();
      return InvalidArgument("{}: {} must be given: {}", owner, setting.name,
                             allowed.empty() ? WantedOf(setting.type) : std::string_view(allowed));
    }
  }
  for (const auto& [name, value] : given) {
    if (settings.values_.contains(name)) continue;
    if (names.empty()) return InvalidArgument("{}: unknown key '{}'; it takes none", owner, name.substr(0, 60));
    return InvalidArgument("{}: unknown key '{}'.{} Its keys are {}", owner, name.substr(0, 60),
                           DidYouMean(name, names), Join(names, ", "));
  }
  return settings;
}

const SettingValue& Settings::at(std::string_view name) const {
  const auto found = values_.find(name);
  RIVULET_CHECK(found != values_.end(), "no setting '{}'", name);
  return found->second;
}

}  // namespace rivulet
