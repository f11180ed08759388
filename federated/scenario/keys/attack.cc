// [attack]: malicious clients of a simulation and their behaviour. Options besides these are the attack's own
// (federated/settings).
#include "federated/scenario/keys.h"

namespace rivulet::scenario {

std::vector<Key> AttackKeys() {
  return {
      Key("attack.name", RIVULET_FIELD(attack.name), "\"sign_flip\"",
          "Attack by some of a simulation's clients. [attacks](attacks.md) has each with its paper and its options, "
          "which stand beside the name. Programs for real clients refuse it.")
          .Default("nobody attacks")
          .OrNone(),
      Key("attack.fraction", RIVULET_FIELD(attack.fraction), "0.1",
          "Share of the clients that attack, rounded to a whole number of them; `run.seed` draws them.")
          .Between(0, 1)
          .When(
              "attack.name", [](const Scenario& scenario) { return !scenario.attack.name.empty(); },
              "attack.name is given"),
  };
}

}  // namespace rivulet::scenario
