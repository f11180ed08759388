// [privacy]: what clients do to their updates before these leave them. [update]: how updates travel.
#include "federated/scenario/keys.h"
#include "federated/settings/setting_tables.h"

namespace rivulet::scenario {
namespace {

bool Clips(const Scenario& s) { return s.privacy.clip > 0; }
bool IsNoisy(const Scenario& s) { return Clips(s) && s.privacy.noise > 0; }
bool IsTopK(const Scenario& s) { return s.update.codec == "top_k"; }
bool LosesInTheMean(const Scenario& s) { return IsTopK(s) || s.update.codec == "sign"; }
bool IsSparse(const Scenario& s) { return IsTopK(s) || s.update.codec == "random_k"; }

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
          "Encoding of an update's values. `f32`: as they are. `bf16`: half the bytes, rounded to eight bits. `f16`: "
          "half, rounded to eleven bits and at most 65504. `int8` in a quarter and `int4` in an eighth: rounded by "
          "chance to levels of the largest of each 256 or 64. `eden1` to `eden4`: so many bits, rotated at random and "
          "rounded as is best for normal numbers. `qsgd2`, `qsgd4` and `qsgd8`: so many bits, rounded by chance to "
          "levels of the norm of each 256. `elias1`, `elias7` and `elias127`: those three in fewer bytes, as most "
          "levels are zero. `sign`: one bit, times the mean magnitude. `top_k`: only the values of largest magnitude, "
          "in eight bytes each. `random_k`: as many values drawn by chance, scaled up so that their mean is right.")
          .OneOf(SettingTableNames("codec")),
      Key("update.fraction", RIVULET_FIELD(update.fraction), "0.1", "Of the values of an update, how many are sent.")
          .Between(1e-9, 1)
          .When("update.codec", IsSparse, "update.codec is \"top_k\" or \"random_k\""),
      Key("update.error_feedback", RIVULET_FIELD(update.error_feedback), "false",
          "A client keeps the remainder of its update and adds it to its next one, so that it is late and not lost. "
          "It is a vector as long as the model. Not together with `privacy.clip`.")
          .When("update.codec", LosesInTheMean, "update.codec is \"top_k\" or \"sign\""),
  };
}

}  // namespace rivulet::scenario
