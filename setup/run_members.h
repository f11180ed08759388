// Members of a run among the clients of a partition: those with its tags and enough examples (selection.tags,
// selection.min_examples).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "federated/population/population.h"
#include "federated/scenario/scenario.h"
#include "setup/partitioners/shares.h"

namespace rivulet {

// The client's tags in data.partition.tags, in that order, each once.
std::vector<std::string> TagsOf(const PartitionConfig& partition, const std::string& client_id);

// All of `shares` if the scenario has no such conditions. INVALID_ARGUMENT: fewer are left than
// server.clients_per_round.
StatusOr<std::shared_ptr<Population>> RunMembers(const Scenario& scenario, const Shares& shares);

}  // namespace rivulet
