// A scenario key: its setting, its field in Scenario, its TOML text.
#include <filesystem>
#include <type_traits>

#include "federated/scenario/keys.h"
#include "federated/settings/whole_ratios.h"

namespace rivulet::scenario {
namespace {

std::string TomlTables(const std::vector<LayerSpec>& tables) {
  std::string list;
  for (const LayerSpec& table : tables) {
    std::string text;
    for (const auto& [key, value] : table)
      text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", key, ToToml(value));
    list += fmt::format("{}{{ {} }}", list.empty() ? "" : ", ", text);
  }
  return fmt::format("[{}]", list);
}

// Fields are reached through references to a mutable Scenario, but nothing is written.
template <typename Get>
auto Reading(const Scenario& scenario, Get field)
    -> const std::remove_reference_t<decltype(field(std::declval<Scenario&>()))>& {
  return field(const_cast<Scenario&>(scenario));
}

// Converts a number to its text; other values are unchanged.
SettingValue NumberAsText(const SettingValue& value) {
  if (const auto* whole = std::get_if<int64_t>(&value)) return fmt::format("{}", *whole);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  return value;
}

}  // namespace

std::string AbsolutePath(std::string_view path, const std::string& folder) {
  const std::filesystem::path joined = std::filesystem::path(folder) / path;  // an absolute `path` replaces the folder
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(joined, error);
  return (error ? joined : absolute).lexically_normal().string();
}

std::string Describe(const Value& value) {
  struct Visitor {
    std::string operator()(const SettingValue& v) const { return ::rivulet::Describe(v); }
    std::string operator()(const std::vector<LayerSpec>&) const { return "an array of tables"; }
    std::string operator()(const UnsupportedValue& v) const { return v.what; }
  };
  return std::visit(Visitor{}, value);
}

Key::Key(std::string name, Field field, std::string example, std::string doc) : name_(std::move(name)), field_(field) {
  setting_.name = name_.substr(name_.rfind('.') + 1);
  setting_.example = std::move(example);
  setting_.doc = std::move(doc);
  static constexpr SettingType kTypes[] = {SettingType::kInteger, SettingType::kInteger, SettingType::kFloat,
                                           SettingType::kBoolean, SettingType::kString,  SettingType::kStrings,
                                           SettingType::kIntegers};
  if (!HoldsTables()) setting_.type = kTypes[field_.index()];
}

Key::Key(std::shared_ptr<const PieceChoice> choice, Setting setting, std::string allowed)
    : name_(fmt::format("{}.{}", choice->section, setting.name)),
      choice_(std::move(choice)),
      setting_(std::move(setting)),
      allowed_(std::move(allowed)) {}

Key&& Key::AtLeast(double bound) && {
  std::move(setting_).AtLeast(bound);
  return std::move(*this);
}

Key&& Key::Between(double least, double most) && {
  std::move(setting_).Between(least, most);
  return std::move(*this);
}

Key&& Key::Above(double bound) && {
  std::move(setting_).Above(bound);
  return std::move(*this);
}

Key&& Key::Below(double bound) && {
  std::move(setting_).Below(bound);
  return std::move(*this);
}

Key&& Key::OneOf(std::vector<std::string> choices) && {
  std::move(setting_).OneOf(std::move(choices));
  return std::move(*this);
}

Key&& Key::Default(std::string in_words) && {
  setting_.default_in_words = std::move(in_words);
  return std::move(*this);
}

Key&& Key::Path() && {
  path_ = true;
  key_class_ = KeyClass::kPlace;
  return std::move(*this);
}

Key&& Key::Operation() && {
  key_class_ = KeyClass::kOperation;
  return std::move(*this);
}

Key&& Key::Ratios() && {
  ratios_ = true;
  return std::move(*this);
}

Key&& Key::Law() && {
  law_ = true;
  return std::move(*this);
}

Key&& Key::When(std::string selector, Predicate predicate, std::string in_words) && {
  selector_ = std::move(selector);
  predicate_ = std::move(predicate);
  applies_when_ = std::move(in_words);
  return std::move(*this);
}

Key&& Key::OrNone() && {
  or_none_ = true;
  return std::move(*this);
}

Key&& Key::OfGraphs() && {
  const bool has_graph_alone = predicate_ == nullptr;
  predicate_ = [before = std::move(predicate_)](const Scenario& s) {
    return s.model.arrays.empty() && (before == nullptr || before(s));
  };
  if (has_graph_alone) {
    selector_ = "model.arrays";
    applies_when_ = "model.arrays is not given";
  }
  return std::move(*this);
}

bool Key::HoldsTables() const {
  return choice_ == nullptr && std::holds_alternative<std::vector<LayerSpec>& (*)(Scenario&)>(field_);
}

Status Key::Set(const Value& value, std::string_view where, const std::string& folder, Scenario& scenario) const {
  const std::string subject = fmt::format("{} in {}", name_, where);
  const auto* given = std::get_if<SettingValue>(&value);
  if (HoldsTables()) {
    const auto* tables = std::get_if<std::vector<LayerSpec>>(&value);
    // TOML does not state the element type of an empty array.
    const auto* texts = given == nullptr ? nullptr : std::get_if<std::vector<std::string>>(given);
    if (tables == nullptr && (texts == nullptr || !texts->empty()))
      return InvalidArgument("{} must be an array of tables, not {}", subject, Describe(value));
    std::get<std::vector<LayerSpec>& (*)(Scenario&)>(field_)(scenario) =
        tables == nullptr ? std::vector<LayerSpec>() : *tables;
    return absl::OkStatus();
  }
  if (const auto* decimals = std::get_if<UnsupportedValue>(&value);
      ratios_ && decimals != nullptr && !decimals->numbers.empty()) {
    const StatusOr<std::vector<int64_t>> whole = WholeRatios(decimals->numbers);
    if (!whole.ok()) return InvalidArgument("{} {}", subject, Message(whole.status()));
    return Set(SettingValue(*whole), where, folder, scenario);
  }
  if (given == nullptr) return setting_.WrongType(subject, Describe(value));
  StatusOr<SettingValue> taken = setting_.Take(law_ ? NumberAsText(*given) : *given, subject);
  if (taken.ok()) {
    Store(*std::move(taken), folder, scenario);
    return absl::OkStatus();
  }
  // --set name=5 gives an integer even if a string was intended.
  if (where == "--set" && setting_.type == SettingType::kString && !std::holds_alternative<std::string>(*given))
    return InvalidArgument("{}; quote it to make it a string", Message(taken.status()));
  return taken.status();
}

Status Key::CheckOwnRange(std::string_view where, const Scenario& scenario) const {
  const Setting* const own = choice_ == nullptr ? nullptr : choice_->OwnOf(scenario, leaf());
  const SettingValue* const given = own == nullptr ? nullptr : GivenOption(scenario);
  if (given == nullptr) return absl::OkStatus();
  return own->Take(*given, fmt::format("{} in {}", name_, where)).status();
}

const SettingValue* Key::GivenOption(const Scenario& scenario) const {
  const SettingValues& given = choice_->settings(const_cast<Scenario&>(scenario));
  const auto found = given.find(leaf());
  return found == given.end() ? nullptr : &found->second;
}

void Key::Store(SettingValue value, const std::string& folder, Scenario& scenario) const {
  if (choice_ != nullptr) {
    auto* const text = std::get_if<std::string>(&value);
    if (path_ && text != nullptr && !text->empty()) *text = AbsolutePath(*text, folder);
    choice_->settings(scenario)[leaf()] = std::move(value);
    return;
  }
  std::visit(
      [&](auto field) {
        using T = std::remove_reference_t<decltype(field(scenario))>;
        if constexpr (std::is_same_v<T, uint64_t>) {
          field(scenario) = static_cast<uint64_t>(std::get<int64_t>(value));
        } else if constexpr (!std::is_same_v<T, std::vector<LayerSpec>>) {
          field(scenario) = std::get<T>(std::move(value));
          if constexpr (std::is_same_v<T, std::string>)
            if (path_ && !field(scenario).empty()) field(scenario) = AbsolutePath(field(scenario), folder);
          if constexpr (std::is_same_v<T, std::vector<std::string>>)
            for (std::string& line : field(scenario)) {
              const size_t equals = line.find('=');
              if (path_ && equals != std::string::npos)
                line = line.substr(0, equals + 1) + AbsolutePath(line.substr(equals + 1), folder);
            }
        }
      },
      field_);
}

void Key::ForEachPath(Scenario& scenario, const std::function<void(std::string& path)>& visit) const {
  if (!path_) return;
  const auto visit_given = [&visit](std::string& path) {
    if (!path.empty()) visit(path);
  };
  if (choice_ != nullptr) {
    SettingValues& given = choice_->settings(scenario);
    const auto option = given.find(leaf());
    if (option == given.end()) return;
    if (auto* const text = std::get_if<std::string>(&option->second)) visit_given(*text);
    return;
  }
  std::visit(
      [&](auto field) {
        using T = std::remove_reference_t<decltype(field(scenario))>;
        if constexpr (std::is_same_v<T, std::string>) visit_given(field(scenario));
        if constexpr (std::is_same_v<T, std::vector<std::string>>)
          for (std::string& line : field(scenario)) {
            const size_t equals = line.find('=');
            if (equals == std::string::npos) continue;
            std::string path = line.substr(equals + 1);
            visit_given(path);
            line = line.substr(0, equals + 1) + path;
          }
      },
      field_);
}

void Key::Reset(Scenario& scenario) const {
  if (choice_ != nullptr) {
    choice_->settings(scenario).erase(leaf());
    return;
  }
  Scenario defaults;
  std::visit([&](auto field) { field(scenario) = field(defaults); }, field_);
}

std::string Key::Toml(const Scenario& scenario) const {
  if (choice_ != nullptr) {
    if (const SettingValue* const given = GivenOption(scenario)) return ToToml(*given);
    const Setting* const own = choice_->OwnOf(scenario, leaf());
    const std::optional<SettingValue>& usual = (own == nullptr ? &setting_ : own)->default_value;
    return usual ? ToToml(*usual) : "\"\"";
  }
  return std::visit(
      [&](auto field) -> std::string {
        const auto& value = Reading(scenario, field);
        using T = std::remove_cvref_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::vector<LayerSpec>>) {
          return TomlTables(value);
        } else if constexpr (std::is_same_v<T, uint64_t>) {
          return fmt::format("{}", value);
        } else {
          return ToToml(SettingValue(value));
        }
      },
      field_);
}

bool Key::Unset(const Scenario& scenario) const {
  return (or_none_ || std::ranges::find(setting_.choices, "") != setting_.choices.end()) && Toml(scenario) == "\"\"";
}

ScenarioKey Key::Public() const {
  const std::string& words = setting_.default_in_words;
  return {name_,
          key_class_,
          HoldsTables() ? "array of tables"
          : ratios_     ? "array of numbers"
                        : std::string(Name(setting_.type)),
          words.empty() ? fmt::format("`{}`", Toml(Scenario())) : words,
          choice_ == nullptr ? setting_.Allowed() : allowed_,
          applies_when_,
          setting_.example,
          setting_.doc};
}

}  // namespace rivulet::scenario
