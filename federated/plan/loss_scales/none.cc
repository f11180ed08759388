// Losses are not scaled.
#include "federated/plan/loss_scale.h"

namespace rivulet {
namespace {

RIVULET_LOSS_SCALING(no_scaling_registration, {.name = "none", .doc = "the loss as it is"});

}  // namespace
}  // namespace rivulet
