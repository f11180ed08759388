#include "setup/partition.h"

#include <limits>
#include <utility>
#include <vector>

#include "engine/base/join.h"
#include "engine/base/nearest.h"
#include "setup/partitioners/partitioner.h"

namespace rivulet {
namespace {

struct Partitioner {
  std::string kind;
  StatusOr<Shares> (*divide)(const PartitionRequest& request);
};

const std::vector<Partitioner>& Partitioners() {
  static const std::vector<Partitioner> partitioners = {{"iid", PartitionIid},
                                                        {"shards", PartitionShards},
                                                        {"dirichlet", PartitionDirichlet},
                                                        {"label_dirichlet", PartitionLabelDirichlet},
                                                        {"pathological", PartitionPathological},
                                                        {"distribution", PartitionDistribution},
                                                        {"continuous", PartitionContinuous},
                                                        {"by_key", PartitionByKey}};
  return partitioners;
}

StatusOr<const Partitioner*> FindPartitioner(const std::string& kind) {
  std::vector<std::string> kinds;
  for (const Partitioner& partitioner : Partitioners()) {
    if (partitioner.kind == kind) return &partitioner;
    kinds.push_back(partitioner.kind);
  }
  return InvalidArgument("data.partition.kind is '{}'; it must be one of {}.{}", kind, Join(kinds, ", "),
                         DidYouMean(kind, kinds));
}

}  // namespace

StatusOr<Shares> Partition(const Dataset& data, const PartitionConfig& config, const std::string& label_feature,
                           uint64_t seed) {
  RIVULET_ASSIGN_OR_RETURN(const Partitioner* const partitioner, FindPartitioner(config.kind));
  if (data.size() > std::numeric_limits<uint32_t>::max()) {
    return InvalidArgument("data.train has {} examples; a partition counts at most {}", data.size(),
                           std::numeric_limits<uint32_t>::max());
  }
  if (data.size() == 0) return InvalidArgument("data.train has no examples to divide over clients");
  const bool by_key = config.kind == "by_key";
  if (by_key && config.clients < 0)
    return InvalidArgument("data.partition.clients is {}; give at least 1", config.clients);
  if (!by_key && config.clients < 1) {
    return InvalidArgument("data.partition.clients is {}; kind = '{}' needs at least 1", config.clients, config.kind);
  }
  if (!by_key && data.size() < config.clients) {
    return InvalidArgument(
        "data.train has {} examples for {} clients, so that some would be empty; lower data.partition.clients",
        data.size(), config.clients);
  }
  return partitioner->divide({data, config, label_feature, seed});
}

}  // namespace rivulet
