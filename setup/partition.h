// Partition of a data set into clients. Pure functions of (data, configuration, seed).
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/status.h"
#include "engine/data/dataset.h"
#include "federated/scenario/scenario.h"
#include "setup/partitioners/shares.h"

namespace rivulet {

// Divides by data.partition.kind: one of the partitioners that setup/partitioners/ registers, each with its paper, its
// formula and its options in a file. Sizes are even, or what setup/partitioners/sizes.h says, of partitioners with that
// option. Clients are numbered, except by key; none is empty, and every example is one client's, except of keys that
// are left out.
//
// Every name is a safe file name: of a key, bytes that are not ('/', '\', '%', control characters, a leading '.', and
// all that is not ASCII in a value that is not UTF-8) are written %XX.
//
// INVALID_ARGUMENT: fewer examples than clients (an empty client) or than shards, zero clients, more clients than keys,
// an unknown kind, an option out of range, a missing feature (names file, record and byte), an empty key or one
// beyond 128 bytes; the errors of a matrix's file.
StatusOr<Shares> Partition(const Dataset& data, const PartitionConfig& config, const std::string& label_feature,
                           uint64_t seed);

// Whether the data says how many clients there are, so that data.partition.clients is a cap.
bool CountsClients(const PartitionConfig& config);

}  // namespace rivulet
