// FFA-LoRA (Sun et al., "Improving LoRA in privacy-preserving federated learning", ICLR 2024, arXiv:2403.12313): A
// keeps its initial values, which all clients have, and only B is sent. Then Σ p_k · A · B_k = A · Σ p_k · B_k: the
// mean is exact, and noise enters once.
#include <algorithm>

#include "federated/algorithms/adapter_rule.h"

namespace rivulet {
namespace {

Status RequireFrozenA(const AdapterContext& context, Composition&) {
  const auto trained =
      std::ranges::find_if(context.pairs, [](const AdapterPair& pair) { return pair.a->segment != Segment::kFrozen; });
  if (trained == context.pairs.end()) return absl::OkStatus();
  return InvalidArgument(
      "server.lora is \"freeze_a\", and '{}' is trained; set model.lora.freeze_a = true, or of model.arrays name it in "
      "model.freeze",
      trained->a->name);
}

RIVULET_ADAPTER_RULE(freeze_a_registration,
                     {.name = "freeze_a",
                      .doc = "requires that no A is trained: the mean of B gives the mean of the products",
                      .compose = RequireFrozenA});

}  // namespace
}  // namespace rivulet
