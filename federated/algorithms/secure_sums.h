// Secure sums for a composition, refused by name where a scenario needs what they hide.
#pragma once

#include "engine/base/status.h"
#include "federated/plan/composition.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

// Sets the aggregation's protocol and its parts' bounds, which follow from privacy.clip. No effect where privacy.secure
// is "none". INVALID_ARGUMENT names the key that does not go with it.
Status SetSecureSums(const Scenario& scenario, Composition& composition);

}  // namespace rivulet
