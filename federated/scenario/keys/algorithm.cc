// [algorithm]: which composition a run is. Its options beside the name are the algorithm's own (federated/settings).
#include "federated/scenario/keys.h"
#include "federated/settings/setting_tables.h"

namespace rivulet::scenario {

std::vector<Key> AlgorithmKeys() {
  return {
      Key("algorithm.name", RIVULET_FIELD(algorithm.name), "\"fedavg\"",
          "How training on clients and the step of the server are composed. [algorithms](algorithms.md) has each "
          "with its paper and its options, which stand beside the name.")
          .OneOf(SettingTableNames("algorithm")),
      Key("algorithm.graph", RIVULET_FIELD(algorithm.graph), "\"rule.pb\"",
          "A local rule of one's own as a file: what clients take for the gradient of a step, and what they do when "
          "the last one is done, in place of the algorithm's. `rivulet graph build` makes it of a few lines of text "
          "([local rules](../guide/local-rules.md)); its settings stand beside the name as an algorithm's options do. It "
          "travels in the plan.")
          .Path()
          .OrNone()
          .OfGraphs(),
  };
}

}  // namespace rivulet::scenario
