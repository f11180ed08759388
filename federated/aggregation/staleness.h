// Weight factor of a stale update, a power of its staleness (Xie et al. 2019, arXiv:1903.03934, section 5.2; FedBuff
// uses the exponent 1/2).
#pragma once

#include <cstdint>

#include "federated/aggregation/aggregation.h"

namespace rivulet {

// 1 / (1 + staleness)^exponent in units of 2^-kStalenessBits, at least one. `staleness`: versions made between the one
// that a task started from and the one that its update goes into; 0 or more, as the exponent. 0 of either is 2^8.
int64_t StalenessFactor(int64_t staleness, double exponent);

// Of what makes `version`, whose updates start from the one before it, or are late.
Staleness StalenessOf(int64_t version, double exponent);

}  // namespace rivulet
