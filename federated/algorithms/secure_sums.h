// Secure sums for a composition. Scenarios with keys that need single updates are refused by key name.
#pragma once

#include "engine/base/status.h"
#include "federated/plan/composition.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

// Sets the aggregation's protocol and the bounds of its parts, which follow from privacy.clip. No effect if
// privacy.secure is "none". INVALID_ARGUMENT names the key that cannot be combined with it.
Status SetSecureSums(const Scenario& scenario, Composition& composition);

}  // namespace rivulet
