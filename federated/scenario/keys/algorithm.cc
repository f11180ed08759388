// [algorithm]: which composition a run is. Its options beside the name are the algorithm's own (federated/settings).
#include "federated/scenario/keys.h"
#include "federated/settings/setting_tables.h"

namespace rivulet::scenario {

std::vector<Key> AlgorithmKeys() {
  return {
      Key("algorithm.name", RIVULET_FIELD(algorithm.name), "\"fedavg\"",
          "How training on clients and the step of the server are composed. [algorithms.md](algorithms.md) has each "
          "with its paper and its options, which stand beside the name.")
          .OneOf(SettingTableNames("algorithm")),
  };
}

}  // namespace rivulet::scenario
