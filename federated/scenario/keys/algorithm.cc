// [algorithm]: the algorithm of a run. Options besides the name are the algorithm's own (federated/settings).
#include "federated/scenario/keys.h"
#include "federated/settings/setting_tables.h"

namespace rivulet::scenario {

std::vector<Key> AlgorithmKeys() {
  return {
      Key("algorithm.name", RIVULET_FIELD(algorithm.name), "\"fedavg\"",
          "How training on clients and the step of the server are composed. [algorithms](algorithms.md) has each "
          "with its paper and its options, which stand beside the name.")
          .OneOf(SettingTableNames("algorithm")),
      Key("algorithm.graph", RIVULET_FIELD(algorithm.graph), "\"rule.txt\"",
          "A local rule as a file, in place of the algorithm's: the gradient of a client's step, and its work after "
          "the last one. It is a few lines of text, or the graph that `rivulet graph build` makes of them ([local "
          "rules](../guide/local-rules.md)). Its settings stand beside the name as an algorithm's options do. It "
          "travels in the plan.")
          .Path()
          .OrNone()
          .OfGraphs(),
  };
}

}  // namespace rivulet::scenario
