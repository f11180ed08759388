#include "setup/run_members.h"

#include <algorithm>

#include "engine/base/wildcard.h"

namespace rivulet {

std::vector<std::string> TagsOf(const PartitionConfig& partition, const std::string& client_id) {
  std::vector<std::string> tags;
  for (const std::string& line : partition.tags) {
    const size_t equals = line.find('=');
    std::string tag = line.substr(0, equals);
    if (MatchesWildcard(std::string_view(line).substr(equals + 1), client_id) && !std::ranges::count(tags, tag)) {
      tags.push_back(std::move(tag));
    }
  }
  return tags;
}

StatusOr<std::shared_ptr<Population>> RunMembers(const Scenario& scenario, const Shares& shares) {
  const SelectionConfig& selection = scenario.selection;
  if (selection.tags.empty() && selection.min_examples == 0) return shares.population();
  std::vector<std::string> names;
  for (int64_t client = 0; client < shares.size(); ++client) {
    std::string name = shares.NameAt(client);
    const std::vector<std::string> tags = TagsOf(scenario.data.partition, name);
    const bool tagged =
        std::ranges::all_of(selection.tags, [&](const std::string& tag) { return std::ranges::count(tags, tag) > 0; });
    if (tagged && std::ssize(shares.ExamplesOf(client)) >= selection.min_examples) names.push_back(std::move(name));
  }
  if (std::ssize(names) < scenario.server.clients_per_round) {
    return InvalidArgument(
        "server.clients_per_round is {}, and {} of the {} clients of data.partition have the tags and the examples "
        "that selection.tags and selection.min_examples ask for; ask for less, or select fewer",
        scenario.server.clients_per_round, names.size(), shares.size());
  }
  RIVULET_ASSIGN_OR_RETURN(std::unique_ptr<Population> members, FixedPopulation(names));
  return std::shared_ptr<Population>(std::move(members));
}

}  // namespace rivulet
