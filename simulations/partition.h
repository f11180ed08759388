// Divides a data set into clients. Pure functions of (data, configuration, seed).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/data/dataset.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

struct ClientShare {
  std::string client_id;           // the by_key value, or client-00000
  std::vector<uint32_t> examples;  // indices into the data set, in the client's order
};

// iid: shuffled and dealt evenly. shards: sorted by label, cut into clients × shards_per_client shards, dealt at random
// (McMahan et al. 2017). dirichlet: each client draws label proportions from Dir(alpha) (Hsu et al. 2019). by_key: one
// client per value of a feature, in byte order; with fewer clients than keys the first ones. INVALID_ARGUMENT: fewer
// examples than clients (an empty client), zero clients, a missing feature.
StatusOr<std::vector<ClientShare>> Partition(const Dataset& data, const PartitionConfig& config,
                                             const std::string& label_feature, uint64_t seed);

}  // namespace rivulet
