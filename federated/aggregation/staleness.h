// Weight factor of a stale update, a power of its staleness (Xie et al. 2019, arXiv:1903.03934, section 5.2; FedBuff
// uses the exponent 1/2).
#pragma once

#include <cstdint>

#include "federated/aggregation/aggregation.h"

namespace rivulet {

// 1 / (1 + staleness)^exponent in units of 2^-kStalenessBits, at least one unit. `staleness`: versions made between a
// task's start and the use of its update; 0 or more, as is the exponent. If either is 0, the factor is 2^8.
int64_t StalenessFactor(int64_t staleness, double exponent);

// Factors for the aggregation of `version`, whose updates start from the version before it or an older one.
Staleness StalenessOf(int64_t version, double exponent);

}  // namespace rivulet
