// [privacy]: what clients do to their updates before these leave them. [update]: how updates travel.
#include "federated/scenario/keys.h"
#include "federated/settings/setting_tables.h"

namespace rivulet::scenario {
namespace {

bool Clips(const Scenario& s) { return s.privacy.clip > 0; }
bool IsNoisy(const Scenario& s) { return Clips(s) && s.privacy.noise > 0; }

}  // namespace

std::vector<Key> PrivacyKeys() {
  return {
      Key("privacy.clip", RIVULET_FIELD(privacy.clip), "1.0",
          "Largest norm of an update, over all that a client sends: a larger one is scaled down to it, by the client. "
          "0: none.")
          .Between(0, 1e9),
      Key("privacy.noise", RIVULET_FIELD(privacy.noise), "0.5",
          "Standard deviation of the Gaussian noise that each client adds to every value of its clipped update, as a "
          "multiple of `privacy.clip`. What privacy a run of many rounds gives by it is not computed here. 0: none.")
          .Between(0, 1e6)
          .When("privacy.clip", Clips, "privacy.clip is above 0"),
      Key("privacy.noise_source", RIVULET_FIELD(privacy.noise_source), "\"seeded\"",
          "`secure` noise comes from the system's generator, and no run is ever repeated. `seeded` noise follows from "
          "run.seed, which whoever knows it can take away again: for simulations.")
          .OneOf({"secure", "seeded"})
          .When("privacy.noise", IsNoisy, "privacy.noise is above 0"),
  };
}

std::vector<Key> UpdateKeys() {
  return {
      Key("update.codec", RIVULET_FIELD(update.codec), "\"bf16\"",
          "How the values of an update travel: `f32` as they are, `bf16` in half the bytes, rounded to eight bits.")
          .OneOf(SettingTableNames("codec")),
  };
}

}  // namespace rivulet::scenario
