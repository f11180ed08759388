// Divides a data set into clients. Pure functions of (data, configuration, seed).
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/status.h"
#include "engine/data/dataset.h"
#include "federated/scenario/scenario.h"
#include "setup/shares.h"

namespace rivulet {

// iid: shuffled and dealt evenly. shards: sorted by label, cut into clients × shards_per_client shards, dealt at random
// (McMahan et al. 2017). dirichlet: each client draws label proportions from the symmetric Dirichlet with parameter
// alpha and takes as many examples as the others by them, without replacement (Hsu et al. 2019). by_key: one client per
// value of a feature (bytes, or int64 written in decimal), which is its name; with fewer clients than keys those of the
// first keys in byte order. Clients of the other kinds are numbered.
//
// Every name is a safe file name: of a key, bytes that are not ('/', '\', '%', control characters, a leading '.', and
// all that is not ASCII in a value that is not UTF-8) are written %XX.
//
// INVALID_ARGUMENT: fewer examples than clients (an empty client) or than shards, zero clients, more clients than keys,
// an unknown kind, a missing feature (names file, record and byte), an empty key or one beyond 128 bytes.
StatusOr<Shares> Partition(const Dataset& data, const PartitionConfig& config, const std::string& label_feature,
                           uint64_t seed);

}  // namespace rivulet
