// Loss scaling as graph logic. The loss is multiplied by a scale before it is differentiated, so that small gradients
// are not lost in 16 bits; the step divides the gradients by it again, and leaves out an update whose gradients are not
// all finite. Dynamic scaling halves the scale after such a step and doubles it after `growth_steps` good ones in a
// row.
#pragma once

#include <string>

#include "engine/base/status.h"
#include "federated/plan/local_rules.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

// Adds it to a finished rule: one scalar for the scale, and for the dynamic kind one for the good steps in a row, each
// given its first value by `begin`. Returns the scale's name ("scalars/2"), by which the client scales the loss.
StatusOr<std::string> AddLossScale(const LossScaleConfig& config, LocalRule& rule);

}  // namespace rivulet
