// [evaluation]: when a committed model is measured, and how.
#include "federated/scenario/keys.h"

namespace rivulet::scenario {

std::vector<Key> EvaluationKeys() {
  return {
      Key("evaluation.every", RIVULET_FIELD(evaluation.every), "10",
          "Rounds between central evaluations on `data.test`; the last round is always evaluated. 0: never.")
          .Between(0, 1e9)
          .Operation(),
      Key("evaluation.batch_size", RIVULET_FIELD(evaluation.batch_size), "500",
          "Examples evaluated at once; bounds memory. The figures are means over all examples.")
          .Between(1, 1 << 20)
          .Operation(),
  };
}

}  // namespace rivulet::scenario
