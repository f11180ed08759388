// [privacy] secure: the protocol that sums a round's updates, and its assumptions about attackers.
#include "federated/scenario/keys.h"

namespace rivulet::scenario {
namespace {

bool IsSecure(const Scenario& s) { return s.secure.on(); }

bool HasKeys(const Scenario& s) { return s.secure.protocol == "secagg_plus"; }
Key&& WithKeys(Key&& key) {
  return std::move(key).When("privacy.secure", HasKeys, "privacy.secure is \"secagg_plus\"");
}

}  // namespace

std::vector<Key> SecureKeys() {
  return {
      Key("privacy.secure", RIVULET_FIELD(secure.protocol), "\"arithmetic\"",
          "Secure aggregation: the coordinator gets the sum of a round's updates. `secagg_plus` hides each update from "
          "it behind masks that cancel in the sum, and needs clients with certificates. `arithmetic` makes the same "
          "sums without keys; it hides nothing and is for simulations. Both need `privacy.clip`, `update.codec` = "
          "`f32`, an "
          "algorithm that takes a mean, and a selection that does not depend on clients' losses or examples.")
          .OneOf({"none", "arithmetic", "secagg_plus"}),
      Key("privacy.min_survivors", RIVULET_FIELD(secure.min_survivors), "10",
          "Clients whose updates a secure sum holds at least. A round with fewer is abandoned.")
          .Between(1, 16384)
          .When("privacy.secure", IsSecure, "privacy.secure is not \"none\""),
      WithKeys(Key("privacy.min_cohort", RIVULET_FIELD(secure.min_cohort), "20",
                   "Clients that a cohort has at least, or its members refuse to share their secrets.")
                   .Between(3, 16384)),
      WithKeys(Key("privacy.max_colluding", RIVULET_FIELD(secure.max_colluding), "5",
                   "Certified clients of the whole population that may collude with a lying coordinator. All of "
                   "them may be in one cohort. More neighbours protect against more.")
                   .Between(0, 16384)),
      WithKeys(Key("privacy.drop_out", RIVULET_FIELD(secure.drop_out), "0.2",
                   "Share of a cohort that may drop out before its sum is read.")
                   .Between(0, 0.9)),
      WithKeys(Key("privacy.least_sum", RIVULET_FIELD(secure.least_sum), "100",
                   "Honest clients in the smallest sum that a lying coordinator may learn. A cohort whose graph "
                   "does not give that is refused.")
                   .Between(1, 16384)),
  };
}

}  // namespace rivulet::scenario
