// Federated averaging with a user's function instead of the mean: `--aggregate MODULE:FUNCTION`, or
// rivulet.simulate(aggregate=f). For research on aggregation without writing C++.
#include "federated/aggregation/external.h"

#include "federated/algorithms/algorithm.h"

namespace rivulet {
namespace {

Setting Function() {
  Setting function = Text("function", "", "The function's name, as a record: `--aggregate` chooses the function.");
  function.example = "\"robust:trimmed\"";
  return function;
}

StatusOr<Composition> External(const AlgorithmContext& context) {
  const Scenario& scenario = context.scenario;
  if (scenario.privacy.clip > 0) {
    return InvalidArgument(
        "privacy.clip is {}, and a function of one's own aggregates (--aggregate), about which no privacy can be "
        "claimed; set privacy.clip to 0",
        scenario.privacy.clip);
  }
  if (scenario.update.codec != "f32") {
    return InvalidArgument(
        "update.codec is \"{}\", and a function of one's own aggregates (--aggregate), which reads updates as float32; "
        "set update.codec to \"f32\"",
        scenario.update.codec);
  }
  RIVULET_ASSIGN_OR_RETURN(Composition composition, FedAvg(context));
  composition.aggregation.rule = kExternalRule;
  return composition;
}

RIVULET_ALGORITHM(
    external_registration, "external", "a function of your own",
    "Federated averaging whose mean is a function of one's own in Python: `--aggregate` of `rivulet "
    "simulate`, `sweep`, `up` and `coordinator`, or `aggregate=` of `rivulet.simulate`. The coordinator keeps "
    "every update of a round on disk until its end.",
    {Function()}, External, "w ← w + server.learning_rate · f({w_k − w, n_k}, state)");

}  // namespace
}  // namespace rivulet
