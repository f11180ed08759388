// [server]: cohorts, attempts, and what becomes of updates.
#include "federated/scenario/keys.h"

namespace rivulet::scenario {

std::vector<Key> ServerKeys() {
  return {
      Key("server.clients_per_round", RIVULET_FIELD(server.clients_per_round), "20", "Clients drawn for each round.")
          .Between(1, 1e6),
      Key("server.min_clients", RIVULET_FIELD(server.min_clients), "15",
          "Names that must be known before the first selection. 0: as many as `data.partition.clients`, or every key.")
          .Between(0, 1e8)
          .Operation(),
      Key("server.min_reports", RIVULET_FIELD(server.min_reports), "8",
          "Updates that a round commits with when its deadline passes; with fewer the attempt is abandoned. 0: all of "
          "`server.clients_per_round`.")
          .Between(0, 1e6)
          .Operation(),
      Key("server.deadline", RIVULET_FIELD(server.deadline_seconds), "120.0", "Seconds that a client has for its task.")
          .Above(0)
          .Below(1e9)
          .Operation(),
      Key("server.max_attempts", RIVULET_FIELD(server.max_attempts), "5", "Attempts at one round before the run fails.")
          .Between(1, 1e6)
          .Operation(),
      Key("server.learning_rate", RIVULET_FIELD(server.learning_rate), "0.5",
          "The new model is the old one plus learning_rate × the mean delta, or what the algorithm's own optimiser "
          "makes of that.")
          .Between(0, 1e6),
      Key("server.max_weight", RIVULET_FIELD(server.max_weight), "100000",
          "Largest weight of one update, in examples; a larger one is refused. Together with `server.value_bits` and "
          "`server.clients_per_round` it decides the resolution of the sum.")
          .Between(1, (1 << 29) - 1),
      Key("server.value_bits", RIVULET_FIELD(server.value_bits), "12",
          "Largest magnitude in a delta, as a power of two; an update beyond 2^value_bits is refused. Below 0 for "
          "updates known to be small, whose sum is then as much finer.")
          .Between(-30, 30),
      Key("server.staging_megabytes", RIVULET_FIELD(server.staging_megabytes), "128",
          "Uploads held in memory while they arrive; beyond it they wait in an unlinked file.")
          .Between(1, 1 << 20)
          .Operation(),
  };
}

}  // namespace rivulet::scenario
