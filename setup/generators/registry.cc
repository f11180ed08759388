// Generators by name.
#include <map>
#include <utility>

#include "engine/base/join.h"
#include "engine/base/nearest.h"
#include "federated/settings/registered_piece.h"
#include "setup/generators/generator.h"

namespace rivulet {
namespace {

constexpr char kGenerator[] = "generator";

// Made at first use and never destroyed, because registrations in other files run before main in an unknown order.
std::map<std::string, Generator, std::less<>>& Generators() {
  static auto* const generators = new std::map<std::string, Generator, std::less<>>;
  return *generators;
}

}  // namespace

GeneratorRegistration::GeneratorRegistration(Generator generator) {
  RegisterPiece(kGenerator, generator.name, [generator] {
    SettingTableRegistration(
        {.kind = kGenerator, .name = generator.name, .settings = generator.settings, .doc = generator.doc});
    Generators().emplace(generator.name, generator);
  });
}

StatusOr<const Generator*> FindGenerator(const std::string& name) {
  const auto found = Generators().find(name);
  if (found != Generators().end()) return &found->second;
  const std::vector<std::string> names = SettingTableNames(kGenerator);
  return InvalidArgument("data.synth.kind is '{}'; it must be one of {}.{}", name, Join(names, ", "),
                         DidYouMean(name, names));
}

}  // namespace rivulet
