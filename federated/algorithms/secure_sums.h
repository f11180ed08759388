// Secure sums for a composition. A scenario whose keys read single updates is refused by name.
#pragma once

#include "engine/base/status.h"
#include "federated/plan/composition.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

// Sets the aggregation's protocol and its parts' bounds, which follow from privacy.clip. No effect where privacy.secure
// is "none". INVALID_ARGUMENT names the key that does not go with it.
Status SetSecureSums(const Scenario& scenario, Composition& composition);

}  // namespace rivulet
