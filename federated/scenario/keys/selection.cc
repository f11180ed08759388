// [selection]: eligible clients and the selector. Options besides these are the selector's own (federated/settings).
#include "federated/scenario/keys.h"
#include "federated/settings/setting_tables.h"

namespace rivulet::scenario {

std::vector<Key> SelectionKeys() {
  return {
      Key("selection.name", RIVULET_FIELD(selection.name), "\"round_robin\"",
          "How the clients that train are drawn. [selection](selection.md) has each with its paper and its options, "
          "which stand beside the name. Those that measure a version are drawn uniformly.")
          .OneOf(SettingTableNames("selection")),
      Key("selection.tags", RIVULET_FIELD(selection.tags), "[\"icu\"]",
          "Tags that a client must have to be a member of the run. A client says its own (`rivulet client --tag`); "
          "those of a simulation are in `data.partition.tags`."),
      Key("selection.min_examples", RIVULET_FIELD(selection.min_examples), "20",
          "Examples that a client must have to be a member of the run.")
          .Between(0, 1e12),
      Key("selection.trace", RIVULET_FIELD(selection.trace), "\"available.csv\"",
          "A CSV file of the rounds in which clients may be drawn: lines of a client's name, the first round and the "
          "last. A client without a line may be drawn in every round.")
          .Path()
          .Default("none; every client may be drawn in every round"),
      Key("selection.period", RIVULET_FIELD(selection.period), "24",
          "Rounds after which `selection.trace` starts over; 0: it does not.")
          .Between(0, 1e9)
          .When(
              "selection.trace", [](const Scenario& scenario) { return !scenario.selection.trace.empty(); },
              "selection.trace is given"),
  };
}

}  // namespace rivulet::scenario
