// [privacy]: changes of updates before they leave their clients. [update]: encoding of updates.
#include <algorithm>
#include <iterator>

#include "federated/scenario/keys.h"
#include "federated/scenario/piece_keys.h"
#include "federated/settings/setting_tables.h"
#include "federated/settings/traits.h"

namespace rivulet::scenario {
namespace {

bool Clips(const Scenario& s) { return s.privacy.clip > 0; }
bool IsNoisy(const Scenario& s) { return Clips(s) && s.privacy.noise > 0; }
bool LosesInTheMean(const Scenario& s) { return HasTrait("codec", s.update.codec, kLosesInTheMean); }

}  // namespace

std::vector<Key> PrivacyKeys() {
  return {
      Key("privacy.unit", RIVULET_FIELD(privacy.unit), "\"example\"",
          "The unit that clip and noise protect. `client`: all that a client sends. `example`: each single example, "
          "against everybody outside its site (DP-SGD, Abadi et al. 2016). Each step then draws examples with the "
          "probability client.batch_size / examples. It clips the gradient of each to `privacy.clip`, and adds noise "
          "of `privacy.noise` times that to their sum. Losses are not reported.")
          .OneOf({"client", "example"}),
      Key("privacy.clip", RIVULET_FIELD(privacy.clip), "1.0",
          "Largest norm of an update, over all that a client sends: a larger one is scaled down to it, by the client. "
          "With `privacy.unit` = \"example\" the largest norm of one example's gradient. 0: none.")
          .Between(0, 1e9),
      Key("privacy.noise", RIVULET_FIELD(privacy.noise), "0.5",
          "Standard deviation of the Gaussian noise that each client adds to every value of its clipped update, as a "
          "multiple of `privacy.clip`. The privacy of a run of many rounds is not computed from it. With "
          "`privacy.unit` "
          "= \"example\" that of the noise on the sum of each step, and each client accounts for its steps. 0: none.")
          .Between(0, 1e6)
          .When("privacy.clip", Clips, "privacy.clip is above 0"),
      Key("privacy.noise_source", RIVULET_FIELD(privacy.noise_source), "\"seeded\"",
          "`secure` noise comes from the system's generator, and a run cannot be repeated. `seeded` noise follows from "
          "run.seed, so knowledge of the seed is enough to subtract it: for simulations.")
          .OneOf({"secure", "seeded"})
          .When("privacy.noise", IsNoisy, "privacy.noise is above 0"),
      Key("privacy.epsilon", RIVULET_FIELD(privacy.epsilon), "2",
          "Budget of the run against viewers of its models. The run ends before the round that would exceed it. "
          "It needs an algorithm with noise on the sums, such as `dp_fedavg`. A resumed run keeps its spend, and may "
          "have another budget. With `privacy.unit` = \"example\" it is each client's budget, and ends its part; it is "
          "in the plan then, and stays. 0: no budget; epsilon is reported all the same.")
          .Between(0, 1e6)
          .When("privacy.clip", Clips, "privacy.clip is above 0")
          .Operation(),
      Key("privacy.delta", RIVULET_FIELD(privacy.delta), "1e-6",
          "The delta of every epsilon of the run. It should be well below one over the number of clients.")
          .Between(1e-30, 0.5)
          .When("privacy.clip", Clips, "privacy.clip is above 0")
          .Operation(),
  };
}

std::vector<Key> UpdateKeys() {
  std::vector<Key> keys = {
      Key("update.codec", RIVULET_FIELD(update.codec), "\"bf16\"",
          fmt::format("Encoding of an update's values. {}", PiecesInWords("codec")))
          .OneOf(SettingTableNames("codec")),
  };
  std::ranges::move(OptionKeys({.section = "update",
                                .kind = "codec",
                                .selector = "update.codec",
                                .chosen = [](const Scenario& scenario) { return scenario.update.codec; },
                                .settings = RIVULET_FIELD(update.settings)}),
                    std::back_inserter(keys));
  keys.push_back(
      Key("update.error_feedback", RIVULET_FIELD(update.error_feedback), "false",
          "A client keeps the remainder of its update and adds it to its next one, so that it is late and not lost. "
          "It is a vector as long as the model. Not together with `privacy.clip`.")
          .When("update.codec", LosesInTheMean,
                fmt::format("update.codec is {}", AnyOf(NamesWithTrait("codec", kLosesInTheMean)))));
  return keys;
}

}  // namespace rivulet::scenario
