// "adaptive_clip": clips an update to the norm of the task's number "clip", sends it as a multiple of that number, and
// declares whether its norm was within the clip (Andrew, Thakkar, McMahan, Ramaswamy 2021, arXiv:1905.03871, algorithm
// 1). All values are multiplied by min(1 / clip, 1 / ‖update‖), so that sent values have a norm of at most 1 in every
// version. "unclipped" is declared as 1 for a norm of at most the clip, and as -1 otherwise.
#include <algorithm>
#include <cmath>

#include "federated/mechanisms/scaling.h"

namespace rivulet {
namespace {

class ClipToNumber final : public ScalingMechanism {
 public:
  StatusOr<float> FactorFor(double norm, Scalars& declared) const override {
    const auto found = declared.find("clip");
    if (found == declared.end() || !(found->second > 0) || !std::isfinite(found->second)) {
      return InvalidArgument("the task has no number \"clip\" above 0, and its update cannot be clipped");
    }
    const double clip = found->second;
    const bool longer = norm > clip;  // false for NaN, which the coordinator refuses
    declared["unclipped"] = longer ? -1 : 1;
    return FloatUpTo(1 / (longer ? norm : clip));
  }
};

RIVULET_MECHANISM(adaptive_clip_registration, "adaptive_clip", {},
                  [](const Settings&) -> std::unique_ptr<const Mechanism> { return std::make_unique<ClipToNumber>(); });

}  // namespace
}  // namespace rivulet
