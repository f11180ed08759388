// Codecs by name.
#include <map>
#include <vector>

#include "engine/base/nearest.h"
#include "federated/codecs/codec.h"
#include "federated/settings/setting_tables.h"

namespace rivulet {
namespace {

// Made at first use and never destroyed, as the rules'.
std::map<std::string, CodecFactory, std::less<>>& Codecs() {
  static auto* const codecs = new std::map<std::string, CodecFactory, std::less<>>;
  return *codecs;
}

}  // namespace

CodecRegistration::CodecRegistration(const char* name, CodecFactory factory) {
  SettingTableRegistration({"codec", name, {}});
  Codecs().emplace(name, factory);
}

StatusOr<std::unique_ptr<const Codec>> Codec::Create(std::string_view name, int64_t elements) {
  const auto codec = Codecs().find(name);
  if (codec == Codecs().end()) {
    std::vector<std::string> names;
    for (const auto& [known, factory] : Codecs()) names.push_back(known);
    return NotFound("there is no codec '{}'.{}", name, DidYouMean(name, names));
  }
  return codec->second(elements);
}

}  // namespace rivulet
