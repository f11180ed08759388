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

// What data.partition.tags gives the client, in the order in which it says so, each once.
std::vector<std::string> TagsOf(const PartitionConfig& partition, const std::string& client_id);

// All of `shares` where the scenario asks for nothing. INVALID_ARGUMENT: fewer are left than
// server.clients_per_round.
StatusOr<std::shared_ptr<Population>> RunMembers(const Scenario& scenario, const Shares& shares);

}  // namespace rivulet
