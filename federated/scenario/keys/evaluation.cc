// [evaluation]: when and how committed models are measured.
#include "federated/scenario/keys.h"

namespace rivulet::scenario {

std::vector<Key> EvaluationKeys() {
  return {
      Key("evaluation.every", RIVULET_FIELD(evaluation.every), "10",
          "Rounds between central evaluations on `data.test`, `data.tests` and `data.validation`; the last round is "
          "always evaluated. 0: never.")
          .Between(0, 1e9)
          .When(
              "model.arrays", [](const Scenario& s) { return s.model.arrays.empty(); },
              "the model has a graph, that is without model.arrays, whose models clients measure "
              "(evaluation.federated_every)")
          .Operation(),
      Key("evaluation.batch_size", RIVULET_FIELD(evaluation.batch_size), "500",
          "Examples evaluated at once, centrally and by clients; bounds memory. The figures are means over all "
          "examples. Clients keep the value of the run's start.")
          .Between(1, 1 << 20)
          .Operation(),
      Key("evaluation.federated_every", RIVULET_FIELD(evaluation.federated_every), "5",
          "Versions between measurements by clients. A separate cohort measures a version on its members' training "
          "data, and the history has each one's figures and their spread. Clients with personal models, by the "
          "algorithm or `model.personal`, measure these too, as they were when the version was made. The last version "
          "is always measured; no version waits for it. 0: never. A run that began with 0 stays so.")
          .Between(0, 1e9)
          .Operation(),
      Key("evaluation.federated_clients", RIVULET_FIELD(evaluation.federated_clients), "50",
          "Clients drawn to measure a version. 0: as many as `server.clients_per_round`.")
          .Between(0, 1e6)
          .When(
              "evaluation.federated_every", [](const Scenario& s) { return s.evaluation.federated_every > 0; },
              "evaluation.federated_every is not 0")
          .Operation(),
      Key("evaluation.fine_tune_epochs", RIVULET_FIELD(evaluation.fine_tune_epochs), "1",
          "Epochs of training by `[client]` after which a client measures a version once more, fitted to its own "
          "data. The first figures are `evaluate/…`, the second `personal/…`; the fitted model is dropped. 0: no "
          "second measurement.")
          .Between(0, 1e6)
          .When(
              "evaluation.federated_every", [](const Scenario& s) { return s.evaluation.federated_every > 0; },
              "evaluation.federated_every is not 0"),
  };
}

}  // namespace rivulet::scenario
