// One key: its range, its types, its text.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <type_traits>

#include "engine/base/nearest.h"
#include "federated/scenario/keys.h"

namespace rivulet::scenario {
namespace {

std::string Number(double number) {
  if (number == std::floor(number) && std::abs(number) < 1e15) return fmt::format("{}", static_cast<int64_t>(number));
  return fmt::format("{}", number);
}

std::string TomlFloat(double number) {
  std::string text = fmt::format("{}", number);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string TomlTable(const LayerSpec& table) {
  std::string text;
  for (const auto& [key, value] : table) text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", key, ToToml(value));
  return fmt::format("{{ {} }}", text);
}

// TOML does not tell what an empty array is of.
bool IsEmptyArray(const Value& value) {
  const auto* texts = std::get_if<std::vector<std::string>>(&value);
  return texts != nullptr && texts->empty();
}

std::string Quoted(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) {
    if (name.empty()) continue;
    if (!list.empty()) list += ", ";
    list += TomlString(name);
  }
  return list;
}

// Long strings would bury the sentence they stand in.
std::string Shortened(std::string_view text) {
  constexpr size_t kMost = 60;
  if (text.size() <= kMost) return TomlString(text);
  size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not inside a character
  return TomlString(fmt::format("{}…", text.substr(0, end)));
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

std::string AbsolutePath(std::string_view path, const std::string& folder) {
  const std::filesystem::path joined = std::filesystem::path(folder) / path;  // an absolute `path` stands alone
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(joined, error);
  return (error ? joined : absolute).lexically_normal().string();
}

std::string Describe(const Value& value) {
  struct Visitor {
    std::string operator()(int64_t v) const { return fmt::format("the integer {}", v); }
    std::string operator()(double v) const { return fmt::format("the float {}", TomlFloat(v)); }
    std::string operator()(bool v) const { return fmt::format("the boolean {}", v); }
    std::string operator()(const std::string& v) const { return fmt::format("the string {}", Shortened(v)); }
    std::string operator()(const std::vector<std::string>&) const { return "an array of strings"; }
    std::string operator()(const std::vector<int64_t>&) const { return "an array of integers"; }
    std::string operator()(const std::vector<LayerSpec>&) const { return "an array of tables"; }
    std::string operator()(const Unusable& v) const { return v.what; }
  };
  return std::visit(Visitor{}, value);
}

Key&& Key::Between(double minimum, double maximum) && {
  minimum_ = minimum;
  maximum_ = maximum;
  return std::move(*this);
}

Key&& Key::Above(double bound) && {
  minimum_ = bound;
  minimum_excluded_ = true;
  return std::move(*this);
}

Key&& Key::Below(double bound) && {
  maximum_ = bound;
  maximum_excluded_ = true;
  return std::move(*this);
}

Key&& Key::OneOf(std::vector<std::string> choices) && {
  choices_ = std::move(choices);
  return std::move(*this);
}

Key&& Key::Path() && {
  path_ = true;
  return std::move(*this);
}

Key&& Key::Default(std::string in_words) && {
  default_in_words_ = std::move(in_words);
  return std::move(*this);
}

Key&& Key::When(std::string selector, bool (*predicate)(const Scenario&), std::string in_words) && {
  selector_ = std::move(selector);
  predicate_ = predicate;
  applies_when_ = std::move(in_words);
  return std::move(*this);
}

std::string Key::TypeName() const {
  static constexpr const char* kNames[] = {
      "integer", "integer", "float", "boolean", "string", "array of strings", "array of integers", "array of tables"};
  return kNames[field_.index()];
}

std::string Key::Allowed() const {
  if (!choices_.empty()) return Quoted(choices_);
  std::string low, high;
  if (std::isfinite(minimum_)) low = fmt::format("{} {}", minimum_excluded_ ? "above" : "at least", Number(minimum_));
  if (std::isfinite(maximum_)) high = fmt::format("{} {}", maximum_excluded_ ? "below" : "at most", Number(maximum_));
  if (low.empty() || high.empty()) return low + high;
  return low + " and " + high;
}

Status Key::CheckNumber(double number, std::string_view shown, std::string_view where) const {
  const bool low = minimum_excluded_ ? number > minimum_ : number >= minimum_;
  const bool high = maximum_excluded_ ? number < maximum_ : number <= maximum_;
  if (low && high) return absl::OkStatus();  // NaN fails both
  if (!std::isfinite(number)) return InvalidArgument("{} in {} must be a finite number, not {}", name_, where, shown);
  return InvalidArgument("{} in {} must be {}, not {}", name_, where, Allowed(), shown);
}

Status Key::Set(const Value& value, std::string_view where, const std::string& folder, Scenario& scenario) const {
  const auto wrong_type = [&](std::string_view wanted) {
    const bool quote = wanted == "a string" && !std::holds_alternative<Unusable>(value) && where == "--set";
    return InvalidArgument("{} in {} must be {}, not {}{}", name_, where, wanted, Describe(value),
                           quote ? "; quote it to make it a string" : "");
  };
  return std::visit(
      [&](auto field) -> Status {
        using T = std::remove_reference_t<decltype(field(scenario))>;
        if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, uint64_t>) {
          const int64_t* number = std::get_if<int64_t>(&value);
          if (number == nullptr) return wrong_type("an integer");
          RIVULET_RETURN_IF_ERROR(CheckNumber(static_cast<double>(*number), fmt::format("{}", *number), where));
          field(scenario) = static_cast<T>(*number);
        } else if constexpr (std::is_same_v<T, double>) {
          const int64_t* integer = std::get_if<int64_t>(&value);
          const double* number = std::get_if<double>(&value);
          if (integer == nullptr && number == nullptr) return wrong_type("a number");
          const double real = integer != nullptr ? static_cast<double>(*integer) : *number;
          RIVULET_RETURN_IF_ERROR(CheckNumber(real, Number(real), where));
          if (!std::isfinite(real))
            return InvalidArgument("{} in {} must be a finite number, not {}", name_, where, real);
          field(scenario) = real;
        } else if constexpr (std::is_same_v<T, bool>) {
          const bool* flag = std::get_if<bool>(&value);
          if (flag == nullptr) return wrong_type("true or false");
          field(scenario) = *flag;
        } else if constexpr (std::is_same_v<T, std::string>) {
          const std::string* text = std::get_if<std::string>(&value);
          if (text == nullptr) return wrong_type("a string");
          if (text->find('\0') != std::string::npos) {
            return InvalidArgument("{} in {} must not contain a zero byte", name_, where);
          }
          if (!choices_.empty() && std::find(choices_.begin(), choices_.end(), *text) == choices_.end()) {
            const size_t named = choices_.size() - (choices_.front().empty() ? 1 : 0);
            return InvalidArgument("{} in {} must be {}{}, not {}.{}", name_, where, named > 1 ? "one of " : "",
                                   Quoted(choices_), Shortened(*text), DidYouMean(*text, choices_));
          }
          field(scenario) = path_ && !text->empty() ? AbsolutePath(*text, folder) : *text;
        } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
          const std::vector<int64_t>* numbers = std::get_if<std::vector<int64_t>>(&value);
          if (numbers == nullptr && !IsEmptyArray(value)) return wrong_type("an array of integers");
          field(scenario).clear();
          if (numbers == nullptr) return absl::OkStatus();
          for (const int64_t number : *numbers)
            RIVULET_RETURN_IF_ERROR(CheckNumber(static_cast<double>(number), fmt::format("{}", number), where));
          field(scenario) = *numbers;
        } else if constexpr (std::is_same_v<T, std::vector<LayerSpec>>) {
          const std::vector<LayerSpec>* tables = std::get_if<std::vector<LayerSpec>>(&value);
          if (tables == nullptr && !IsEmptyArray(value)) return wrong_type("an array of tables");
          field(scenario) = tables == nullptr ? std::vector<LayerSpec>() : *tables;
        } else {
          const std::vector<std::string>* texts = std::get_if<std::vector<std::string>>(&value);
          if (texts == nullptr) return wrong_type("an array of strings");
          for (const std::string& text : *texts) {
            if (text.empty() || text.find('\0') != std::string::npos) {
              return InvalidArgument("{} in {} must hold names, not {}", name_, where, TomlString(text));
            }
          }
          field(scenario) = *texts;
        }
        return absl::OkStatus();
      },
      field_);
}

void Key::Reset(Scenario& scenario) const {
  Scenario defaults;
  std::visit([&](auto field) { field(scenario) = field(defaults); }, field_);
}

std::string Key::Toml(const Scenario& scenario) const {
  // Fields are reached through references to a mutable scenario; nothing is written here.
  Scenario& readable = const_cast<Scenario&>(scenario);
  return std::visit(
      [&](auto field) -> std::string {
        using T = std::remove_reference_t<decltype(field(readable))>;
        const T& value = field(readable);
        if constexpr (std::is_same_v<T, double>) {
          return TomlFloat(value);
        } else if constexpr (std::is_same_v<T, std::string>) {
          return TomlString(value);
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          std::string list;
          for (const std::string& text : value) list += (list.empty() ? "" : ", ") + TomlString(text);
          return fmt::format("[{}]", list);
        } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
          return fmt::format("[{}]", fmt::join(value, ", "));
        } else if constexpr (std::is_same_v<T, std::vector<LayerSpec>>) {
          std::string list;
          for (const LayerSpec& layer : value) list += (list.empty() ? "" : ", ") + TomlTable(layer);
          return fmt::format("[{}]", list);
        } else {
          return fmt::format("{}", value);
        }
      },
      field_);
}

ScenarioKey Key::Public() const {
  const std::string value = default_in_words_.empty() ? fmt::format("`{}`", Toml(Scenario())) : default_in_words_;
  return {name_, TypeName(), value, Allowed(), applies_when_, example_, doc_};
}

const Key* FindKey(std::string_view name) {
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
                                     {"timeout", "server.deadline"}};

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
