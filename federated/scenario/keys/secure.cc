// [privacy] secure: how the updates of a round are summed, and whom that hides them from.
#include "federated/scenario/keys.h"

namespace rivulet::scenario {
namespace {

bool IsSecure(const Scenario& s) { return s.secure.on(); }

}  // namespace

std::vector<Key> SecureKeys() {
  return {
      Key("privacy.secure", RIVULET_FIELD(secure.protocol), "\"arithmetic\"",
          "Secure aggregation: the coordinator gets the sum of a round's updates. `arithmetic` makes the same sums "
          "without keys. It hides nothing and is for simulations. It needs `privacy.clip`, `update.codec` = `f32`, an "
          "algorithm that takes a mean, and a selection that does not depend on clients' losses or examples.")
          .OneOf({"none", "arithmetic"}),
      Key("privacy.min_survivors", RIVULET_FIELD(secure.min_survivors), "10",
          "Clients whose updates a secure sum holds at least. A round with fewer is abandoned.")
          .Between(1, 16384)
          .When("privacy.secure", IsSecure, "privacy.secure is not \"none\""),
  };
}

}  // namespace rivulet::scenario
