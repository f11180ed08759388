// One scale for all steps.
#include "federated/plan/loss_scale.h"

namespace rivulet {
namespace {

double StaticScale(const Settings& settings) { return settings.number("scale"); }

RIVULET_LOSS_SCALING(static_scaling_registration,
                     {.name = "static",
                      .doc = "one scale for all steps",
                      .settings = {LossScaleSetting("The scale of every step. A power of two rounds nothing.")},
                      .first = StaticScale});

}  // namespace
}  // namespace rivulet
