#include "federated/scenario/piece_keys.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/join.h"
#include "federated/settings/setting_tables.h"
#include "federated/settings/whole_ratios.h"

namespace rivulet::scenario {
namespace {

// An option and the pieces that have it, each with its own range, default and doc.
struct SharedOption {
  std::string name;
  std::vector<std::string> owners;
  std::vector<const Setting*> settings;
  bool is_file = false, ratios = false;
  std::string chooses;  // the kind of piece that it chooses
};

std::vector<SharedOption> OptionsOf(std::string_view kind) {
  std::vector<SharedOption> options;
  for (const SettingTable* table : SettingTablesOf(kind)) {
    for (const Setting& setting : table->settings) {
      auto option = std::ranges::find(options, setting.name, &SharedOption::name);
      if (option == options.end()) option = options.insert(options.end(), SharedOption{.name = setting.name});
      RIVULET_CHECK(option->settings.empty() || option->settings.front()->type == setting.type,
                    "option '{}' of the {} '{}' has another type than that of '{}'", setting.name, kind, table->name,
                    option->owners.front());
      option->owners.push_back(table->name);
      option->settings.push_back(&setting);
      option->is_file = table->IsFile(setting.name);
      option->ratios = table->HasTrait(RatioTrait(setting.name));
      option->chooses = table->KindChosenBy(setting.name);
    }
  }
  return options;
}

// One text if all pieces agree. Otherwise one per group of pieces; the text of a majority comes first and without
// names: "0.9; `rmsprop`: 0", with "; " as `separator`.
std::string InWords(const SharedOption& option, std::string_view separator, const std::vector<std::string>& texts) {
  std::vector<std::pair<std::string, std::vector<std::string>>> said;
  for (size_t i = 0; i < texts.size(); ++i) {
    auto same = std::ranges::find_if(said, [&](const auto& each) { return each.first == texts[i]; });
    if (same == said.end()) same = said.insert(said.end(), {texts[i], {}});
    same->second.push_back(fmt::format("`{}`", option.owners[i]));
  }
  if (said.size() == 1) return said.front().first;
  std::ranges::stable_sort(said, std::greater(), [](const auto& each) { return each.second.size(); });
  std::string words;
  for (const auto& [text, owners] : said) {
    const bool most = words.empty() && 2 * owners.size() > texts.size();
    words += fmt::format("{}{}{}", words.empty() ? "" : separator, most ? "" : fmt::format("{}: ", Join(owners, ", ")),
                         text);
  }
  return words;
}

// One text if all settings agree, or all texts; `text` gives that of each setting.
template <typename Text>
std::string InWordsOf(const SharedOption& option, std::string_view separator, const Text& text) {
  std::vector<std::string> texts;
  for (const Setting* setting : option.settings) texts.push_back(text(*setting));
  return InWords(option, separator, texts);
}

// "`noise`: The largest variance. `colour`: The largest share."
std::string DocInWords(const SharedOption& option) {
  return InWordsOf(option, " ", [](const Setting& setting) { return setting.doc; });
}

std::string DefaultInWords(const Setting& setting) {
  if (!setting.default_in_words.empty()) return setting.default_in_words;
  return setting.default_value ? fmt::format("`{}`", ToToml(*setting.default_value)) : "required";
}

// A setting that accepts all values that any piece accepts, because options may be read before the choice.
Setting Widest(const SharedOption& option) {
  Setting widest = *option.settings.front();
  for (const Setting* each : option.settings) {
    if (each->minimum < widest.minimum || (each->minimum == widest.minimum && !each->minimum_excluded)) {
      widest.minimum = each->minimum;
      widest.minimum_excluded = each->minimum_excluded;
    }
    if (each->maximum > widest.maximum || (each->maximum == widest.maximum && !each->maximum_excluded)) {
      widest.maximum = each->maximum;
      widest.maximum_excluded = each->maximum_excluded;
    }
    widest.least_items = std::min(widest.least_items, each->least_items);
    widest.most_items = std::max(widest.most_items, each->most_items);
    if (each->choices.empty() || widest.choices.empty()) {
      widest.choices.clear();
    } else {
      for (const std::string& choice : each->choices)
        if (std::ranges::find(widest.choices, choice) == widest.choices.end()) widest.choices.push_back(choice);
    }
  }
  return widest;
}

// The value of a text option in `scenario`; "" if the chosen piece lacks the option.
std::string TextOf(const PieceChoice& choice, const std::string& option, const Scenario& scenario) {
  const Setting* setting = choice.OwnOf(scenario, option);
  if (setting == nullptr) return "";
  const SettingValues& given = choice.settings(const_cast<Scenario&>(scenario));
  const auto value = given.find(option);
  const SettingValue& taken = value == given.end() ? *setting->default_value : value->second;
  return std::get<std::string>(taken);
}

}  // namespace

const Setting* PieceChoice::OwnOf(const Scenario& scenario, std::string_view option) const {
  const auto table = FindSettingTable(kind, chosen(scenario));
  return table.ok() ? FindSetting((*table)->settings, option) : nullptr;
}

std::vector<Key> OptionKeys(const PieceChoice& choice) {
  const auto shared = std::make_shared<const PieceChoice>(choice);
  const std::vector<const SettingTable*> pieces = SettingTablesOf(choice.kind);
  std::vector<Key> keys;
  for (const SharedOption& option : OptionsOf(choice.kind)) {
    Setting setting = Widest(option);
    setting.doc = DocInWords(option);
    setting.default_in_words = InWordsOf(option, "; ", DefaultInWords);
    if (!option.chooses.empty()) setting.choices = SettingTableNames(option.chooses);
    const std::string allowed = option.chooses.empty()
                                    ? InWordsOf(option, "; ", [](const Setting& own) { return own.Allowed(); })
                                    : setting.Allowed();
    Key key(shared, std::move(setting), allowed);
    if (option.is_file) std::move(key).Path();
    if (option.ratios) std::move(key).Ratios();
    const bool every = option.owners.size() == pieces.size();
    if (!every || choice.or_none)
      std::move(key).When(
          choice.selector,
          [shared, name = option.name](const Scenario& s) { return shared->OwnOf(s, name) != nullptr; },
          fmt::format("{} is {}", choice.selector, every ? "given" : AnyOf(option.owners)));
    keys.push_back(std::move(key));
    if (option.chooses.empty()) continue;
    const PieceChoice inner = {choice.section,
                               option.chooses,
                               fmt::format("{}.{}", choice.section, option.name),
                               [choice, name = option.name](const Scenario& s) { return TextOf(choice, name, s); },
                               choice.settings,
                               true};
    std::ranges::move(OptionKeys(inner), std::back_inserter(keys));
  }
  return keys;
}

std::string AnyOf(const std::vector<std::string>& names) {
  std::string list;
  for (size_t i = 0; i < names.size(); ++i)
    list += fmt::format("{}\"{}\"", i == 0 ? "" : i + 1 == names.size() ? " or " : ", ", names[i]);
  return list;
}

std::string PiecesInWords(std::string_view kind) {
  std::vector<std::pair<std::string, std::vector<std::string>>> pieces_of;  // by doc
  for (const SettingTable* table : SettingTablesOf(kind)) {
    auto same = std::ranges::find_if(pieces_of, [&](const auto& each) { return each.first == table->doc; });
    if (same == pieces_of.end()) same = pieces_of.insert(same, {table->doc, {}});
    same->second.push_back(table->name);
  }
  std::string words;
  for (const auto& [doc, names] : pieces_of)
    words += fmt::format("{}{}: {}.", words.empty() ? "" : " ", NamesInWords(names), doc);
  return words;
}

}  // namespace rivulet::scenario
