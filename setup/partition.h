// Partition of a data set into clients. Pure functions of (data, configuration, seed).
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/status.h"
#include "engine/data/dataset.h"
#include "federated/scenario/scenario.h"
#include "setup/partitioners/shares.h"

namespace rivulet {

// Divides by data.partition.kind: one of the partitioners registered in setup/partitioners/, each with its paper,
// formula and options in a file. Sizes are even, or by setup/partitioners/sizes.h for partitioners with that option.
// Clients are numbered, except by key. None is empty, and every example has one client, except for keys that are left
// out.
//
// Every name is a safe file name: bytes of a key that are not ('/', '\', '%', control characters, a leading '.', and
// non-ASCII bytes in a value that is not UTF-8) are written as %XX.
//
// INVALID_ARGUMENT: fewer examples than clients (an empty client) or than shards, zero clients, more clients than keys,
// an unknown kind, an option out of range, a missing feature (names file, record and byte), an empty key or one longer
// than 128 bytes; the errors of a matrix's file.
StatusOr<Shares> Partition(const Dataset& data, const PartitionConfig& config, const std::string& label_feature,
                           uint64_t seed);

// Whether the data determine the number of clients, so that data.partition.clients is an upper limit.
bool CountsClients(const PartitionConfig& config);

}  // namespace rivulet
