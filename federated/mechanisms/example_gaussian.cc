// "example_gaussian": protects single examples in training. The trainer reads its settings, clips the gradient of each
// example and adds exact discrete Gaussian noise to each step's sum (client/training/example_steps.h). The update
// consists of noised gradients only, so Apply changes nothing. Clients that do not know this mechanism refuse the plan.
// The noise comes from a site's key, so repeating a task gives the same update.
#include "federated/mechanisms/mechanism.h"

namespace rivulet {
namespace {

class ExampleGaussian final : public Mechanism {
 public:
  Status Apply(std::span<const std::span<float>>, Draws&, Scalars&) const override { return absl::OkStatus(); }
};

RIVULET_MECHANISM(
    example_gaussian_registration, "example_gaussian",
    {Float("clip", std::nullopt, "Largest norm of one example's gradient.").Between(1e-9, 1e9),
     Float("multiplier", std::nullopt, "Deviation of the noise on a step's sum, over the clip.").Between(1e-3, 256),
     Float("epsilon", 0, "Budget of each client in its run; 0: none.").Between(0, 1e6),
     Float("delta", 1e-5, "Of every epsilon.").Between(1e-30, 0.5),
     Text("source", "secure", "Whose randomness it is.").OneOf({"secure", "seeded"})},
    [](const Settings&) -> std::unique_ptr<const Mechanism> { return std::make_unique<ExampleGaussian>(); });

}  // namespace
}  // namespace rivulet
