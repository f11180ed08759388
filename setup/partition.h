// Divides a data set into clients. Pure functions of (data, configuration, seed).
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/status.h"
#include "engine/data/dataset.h"
#include "federated/scenario/scenario.h"
#include "setup/shares.h"

namespace rivulet {

// How clients differ, by data.partition.kind:
//   iid               not: shuffled and dealt
//   shards            sorted by label, cut into clients × shards_per_client shards, dealt at random
//   dirichlet         each client draws label proportions from Dirichlet(alpha) and fills its share by them
//   label_dirichlet   each label is divided over the clients in proportions drawn from Dirichlet(alpha)
//   pathological      each client has labels_per_client labels
//   distribution      a matrix says how much of each label each client gets
//   continuous        sorted by a number that every example has, blended with noise
//   by_key            one client per value of a feature (bytes, or int64 written in decimal), which is its name; with
//                     fewer clients than keys those of the first keys in byte order
// Each has its paper and its formula in a file of setup/partitioners/. Sizes are even, or for iid, dirichlet and
// continuous what setup/partitioners/sizes.h says. Clients are numbered, except by key; none is empty, and every
// example is one client's, except of keys that are left out.
//
// Every name is a safe file name: of a key, bytes that are not ('/', '\', '%', control characters, a leading '.', and
// all that is not ASCII in a value that is not UTF-8) are written %XX.
//
// INVALID_ARGUMENT: fewer examples than clients (an empty client) or than shards, zero clients, more clients than keys,
// an unknown kind, a parameter out of range, a missing feature (names file, record and byte), an empty key or one
// beyond 128 bytes; the errors of a matrix's file.
StatusOr<Shares> Partition(const Dataset& data, const PartitionConfig& config, const std::string& label_feature,
                           uint64_t seed);

}  // namespace rivulet
