// Selectors by name.
#include <map>

#include "federated/selection/selector.h"
#include "federated/settings/made_piece.h"
#include "federated/settings/registered_piece.h"
#include "federated/settings/setting_tables.h"

namespace rivulet {
namespace {

constexpr char kSelection[] = "selection";

struct Registered {
  std::string doc;
  SelectorFactory factory = nullptr;
};

// Created at first use and never destroyed, like the registry of codecs.
std::map<std::string, Registered, std::less<>>& Selectors() {
  static auto* const selectors = new std::map<std::string, Registered, std::less<>>;
  return *selectors;
}

}  // namespace

SelectorRegistration::SelectorRegistration(const char* name, const char* doc, std::vector<Setting> settings,
                                           SelectorFactory factory) {
  RegisterPiece(kSelection, name, [=, name = std::string(name), doc = std::string(doc)] {
    SettingTableRegistration({kSelection, name, settings});
    Selectors()[name] = {doc, factory};
  });
}

StatusOr<std::unique_ptr<const Selector>> Selector::Create(const PieceSpec& piece) {
  RIVULET_ASSIGN_OR_RETURN(const SettingTable* table, FindSettingTable(kSelection, piece.name));
  RIVULET_ASSIGN_OR_RETURN(const Settings settings, Settings::Read(table->settings, piece.settings,
                                                                   fmt::format("{} '{}'", kSelection, piece.name)));
  return MadePiece<Selector>(kSelection, piece.name, Selectors().at(piece.name).factory(settings));
}

std::string SelectionReference() {
  std::string page;
  for (const auto& [name, selector] : Selectors()) {
    page += fmt::format("\n## `{}`\n\n{}\n", name, selector.doc);
    const std::vector<Setting>& settings = FindSettingTable(kSelection, name).value()->settings;
    page += settings.empty() ? "\nIt has no options.\n" : "\n" + SettingsAsMarkdown(settings);
  }
  return page;
}

}  // namespace rivulet
