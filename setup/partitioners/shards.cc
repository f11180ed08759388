// Sorts by label and cuts into shards, a few for each client (McMahan et al., "Communication-Efficient Learning of Deep
// Networks from Decentralized Data", AISTATS 2017).
#include <algorithm>
#include <numeric>

#include "setup/partitioners/partitioner.h"

namespace rivulet {
namespace {

StatusOr<Shares> PartitionShards(const PartitionRequest& request) {
  const auto& [data, clients, settings, given, label_feature, seed] = request;
  const int64_t per_client = settings.integer("shards_per_client");
  if (per_client > data.size() / clients) {
    return InvalidArgument(
        "{} clients × {} shards need more than the {} examples of data.train; lower "
        "data.partition.clients or data.partition.shards_per_client",
        clients, per_client, data.size());
  }
  const int64_t shards = clients * per_client;
  RIVULET_ASSIGN_OR_RETURN(const std::vector<int64_t> labels, ReadLabels(data, label_feature));
  std::vector<uint32_t> by_label(labels.size());
  std::iota(by_label.begin(), by_label.end(), 0u);
  std::stable_sort(by_label.begin(), by_label.end(), [&](uint32_t a, uint32_t b) { return labels[a] < labels[b]; });
  Draws draws = PartitionDraws(seed, PartitionOp::kDealShards);
  const std::vector<uint32_t> dealt = Permutation(draws, static_cast<uint32_t>(shards));
  std::vector<uint64_t> ends;
  ends.reserve(static_cast<size_t>(clients));
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

RIVULET_PARTITIONER(
    shards_registration,
    {.name = "shards",
     .doc = "sorts by label, cuts, and deals each client a few cuts (McMahan et al. 2017)",
     .settings = {WithExample(Integer("shards_per_client", 2, "Cuts dealt to each client.").Between(1, 1e6), "3")},
     .divide = PartitionShards});

}  // namespace
}  // namespace rivulet
