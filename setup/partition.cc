#include "setup/partition.h"

#include <limits>

#include "federated/settings/traits.h"
#include "setup/partitioners/partitioner.h"

namespace rivulet {

bool CountsClients(const PartitionConfig& config) { return HasTrait("partitioner", config.kind, kCountsClients); }

StatusOr<Shares> Partition(const Dataset& data, const PartitionConfig& config, const std::string& label_feature,
                           uint64_t seed) {
  RIVULET_ASSIGN_OR_RETURN(const Partitioner* const partitioner, FindPartitioner(config.kind));
  if (data.size() > std::numeric_limits<uint32_t>::max()) {
    return InvalidArgument("data.train has {} examples; a partition counts at most {}", data.size(),
                           std::numeric_limits<uint32_t>::max());
  }
  if (data.size() == 0) return InvalidArgument("data.train has no examples to divide over clients");
  const bool counts_clients = CountsClients(config);
  if (counts_clients && config.clients < 0)
    return InvalidArgument("data.partition.clients is {}; give at least 1", config.clients);
  if (!counts_clients && config.clients < 1) {
    return InvalidArgument("data.partition.clients is {}; kind = '{}' needs at least 1", config.clients, config.kind);
  }
  if (!counts_clients && data.size() < config.clients) {
    return InvalidArgument(
        "data.train has {} examples for {} clients, so that some would be empty; lower data.partition.clients",
        data.size(), config.clients);
  }
  RIVULET_ASSIGN_OR_RETURN(const SettingTable* const table, FindSettingTable("partitioner", config.kind));
  RIVULET_ASSIGN_OR_RETURN(const Settings settings, ReadOwn(*table, config.settings, "data.partition"));
  return partitioner->divide({data, config.clients, settings, config.settings, label_feature, seed});
}

}  // namespace rivulet
