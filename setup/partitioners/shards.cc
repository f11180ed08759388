// Sorted by label and cut: a few cuts to each client (McMahan et al., "Communication-Efficient Learning of Deep
// Networks from Decentralized Data", AISTATS 2017).
#include <algorithm>
#include <numeric>

#include "setup/partitioners/partitioner.h"

namespace rivulet {

StatusOr<Shares> PartitionShards(const PartitionRequest& request) {
  const auto& [data, config, label_feature, seed] = request;
  const int64_t per_client = config.shards_per_client;
  if (per_client < 1) return InvalidArgument("data.partition.shards_per_client is {}; give at least 1", per_client);
  if (per_client > data.size() / config.clients) {
    return InvalidArgument(
        "{} clients × {} shards need more than the {} examples of data.train; lower "
        "data.partition.clients or data.partition.shards_per_client",
        config.clients, per_client, data.size());
  }
  const int64_t shards = config.clients * per_client;
  RIVULET_ASSIGN_OR_RETURN(const std::vector<int64_t> labels, ReadLabels(data, label_feature));
  std::vector<uint32_t> by_label(labels.size());
  std::iota(by_label.begin(), by_label.end(), 0u);
  std::stable_sort(by_label.begin(), by_label.end(), [&](uint32_t a, uint32_t b) { return labels[a] < labels[b]; });
  Draws draws = PartitionDraws(seed, PartitionOp::kDealShards);
  const std::vector<uint32_t> dealt = Permutation(draws, static_cast<uint32_t>(shards));
  std::vector<uint64_t> ends;
  ends.reserve(static_cast<size_t>(config.clients));
  std::vector<uint32_t> examples;
  examples.reserve(by_label.size());
  int64_t hands = 0;
  for (const uint32_t shard : dealt) {
    examples.insert(examples.end(), by_label.begin() + EvenCut(data.size(), shard, shards),
                    by_label.begin() + EvenCut(data.size(), shard + 1, shards));
    if (++hands % per_client == 0) ends.push_back(examples.size());
  }
  return Shares::OfNumbered(std::move(ends), std::move(examples));
}

}  // namespace rivulet
