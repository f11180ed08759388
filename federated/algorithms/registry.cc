#include <map>

#include "engine/base/check.h"
#include "engine/base/nearest.h"
#include "federated/algorithms/algorithm.h"
#include "federated/settings/registered_piece.h"
#include "federated/settings/setting_tables.h"

namespace rivulet {
namespace {

// Created at first use and never destroyed: registrations of other files run before main in an unspecified order.
std::map<std::string, Algorithm, std::less<>>& AlgorithmsByName() {
  static auto* const algorithms = new std::map<std::string, Algorithm, std::less<>>;
  return *algorithms;
}

}  // namespace

AlgorithmRegistration::AlgorithmRegistration(Algorithm algorithm) {
  const std::string name = algorithm.name;
  RegisterPiece("algorithm", name, [algorithm = std::move(algorithm)] {
    SettingTableRegistration({"algorithm", algorithm.name, algorithm.settings});
    AlgorithmsByName().emplace(algorithm.name, algorithm);
  });
}

StatusOr<const Algorithm*> FindAlgorithm(std::string_view name) {
  const auto found = AlgorithmsByName().find(name);
  if (found != AlgorithmsByName().end()) return &found->second;
  std::vector<std::string> names;
  for (const auto& [known, algorithm] : AlgorithmsByName()) names.push_back(known);
  return NotFound("there is no algorithm '{}'.{}", name, DidYouMean(name, names));
}

std::vector<const Algorithm*> Algorithms() {
  std::vector<const Algorithm*> algorithms;
  for (const auto& [name, algorithm] : AlgorithmsByName()) algorithms.push_back(&algorithm);
  return algorithms;
}

std::string AlgorithmReference() {
  std::string page;
  for (const Algorithm* algorithm : Algorithms()) {
    page += fmt::format("\n## `{}`\n\n{} ({})\n", algorithm->name, algorithm->doc, algorithm->paper);
    page += fmt::format("\n```\n{}\n```\n", algorithm->equations);
    page += algorithm->settings.empty() ? "\nIt has no options.\n" : "\n" + SettingsAsMarkdown(algorithm->settings);
  }
  return page;
}

}  // namespace rivulet
