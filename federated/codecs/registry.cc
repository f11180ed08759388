// Codecs by name.
#include <map>
#include <variant>
#include <vector>

#include "engine/base/check.h"
#include "federated/codecs/codec.h"
#include "federated/settings/registered_piece.h"
#include "federated/settings/setting_tables.h"

namespace rivulet {
namespace {

constexpr char kCodec[] = "codec";

using AnyFactory = std::variant<CodecFactory, PlainCodecFactory>;

// Created at first use and never destroyed, like the registry of rules.
std::map<std::string, AnyFactory, std::less<>>& Codecs() {
  static auto* const codecs = new std::map<std::string, AnyFactory, std::less<>>;
  return *codecs;
}

void Register(SettingTable table, AnyFactory factory) {
  for (const Setting& setting : table.settings)
    RIVULET_CHECK(setting.type == SettingType::kFloat, "setting '{}' of the codec '{}' is no float", setting.name,
                  table.name);
  const std::string name = table.name;
  RegisterPiece(kCodec, name, [table = std::move(table), factory] {
    SettingTableRegistration{table};
    Codecs().emplace(table.name, factory);
  });
}

}  // namespace

CodecRegistration::CodecRegistration(const char* name, const char* doc, std::vector<Setting> settings,
                                     CodecFactory factory, std::vector<std::string> traits) {
  Register({.kind = kCodec, .name = name, .settings = std::move(settings), .doc = doc, .traits = std::move(traits)},
           factory);
}

CodecRegistration::CodecRegistration(const char* name, const char* doc, PlainCodecFactory factory,
                                     std::vector<std::string> traits) {
  Register({.kind = kCodec, .name = name, .settings = {}, .doc = doc, .traits = std::move(traits)}, factory);
}

StatusOr<std::unique_ptr<const Codec>> Codec::Create(std::string_view name, int64_t elements,
                                                     const std::map<std::string, double>& settings) {
  RIVULET_ASSIGN_OR_RETURN(const SettingTable* table, FindSettingTable(kCodec, name));
  RIVULET_ASSIGN_OR_RETURN(const Settings read,
                           Settings::Read(table->settings, SettingValues(settings.begin(), settings.end()),
                                          fmt::format("{} '{}'", kCodec, name)));
  const AnyFactory& factory = Codecs().find(name)->second;
  if (const auto* plain = std::get_if<PlainCodecFactory>(&factory)) return (*plain)(elements);
  return std::get<CodecFactory>(factory)(elements, read);
}

}  // namespace rivulet
