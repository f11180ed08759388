// "adaptive_clip": clips an update to the norm of the task's number "clip", sends it as a multiple of that number, and
// declares whether it was short enough (Andrew, Thakkar, McMahan, Ramaswamy 2021, arXiv:1905.03871, algorithm 1). All
// values are multiplied by min(1 / clip, 1 / ‖update‖), so that what is sent has a norm of at most 1 in every version.
// "unclipped" is declared as 1 for a norm of at most the clip, and as -1 otherwise.
#include <algorithm>
#include <cmath>

#include "federated/mechanisms/flat_values.h"
#include "federated/mechanisms/mechanism.h"

namespace rivulet {
namespace {

class ClipToNumber final : public Mechanism {
 public:
  Status Apply(std::span<const std::span<float>> parts, Draws&, Scalars& declared) const override {
    const auto found = declared.find("clip");
    if (found == declared.end() || !(found->second > 0) || !std::isfinite(found->second)) {
      return InvalidArgument("the task has no number \"clip\" above 0, and its update cannot be clipped");
    }
    const double clip = found->second, length = NormOf(parts);
    const bool longer = length > clip;  // NaN is left for the coordinator to refuse
    for (const std::span<float> part : parts) ScaleBy(part, 1 / (longer ? length : clip));
    declared["unclipped"] = longer ? -1 : 1;
    return absl::OkStatus();
  }
};

RIVULET_MECHANISM(adaptive_clip_registration, "adaptive_clip", {},
                  [](const Settings&) -> std::unique_ptr<const Mechanism> { return std::make_unique<ClipToNumber>(); });

}  // namespace
}  // namespace rivulet
