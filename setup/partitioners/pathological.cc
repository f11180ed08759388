// Each client has a fixed number of labels: client i has label i modulo their number and others drawn at random; each
// label's examples are divided evenly among its clients ("#C = k" in Li et al., "Federated Learning on Non-IID Data
// Silos: An Experimental Study", ICDE 2022; PathologicalPartitioner in Flower with class_assignment_mode =
// "first-deterministic"). These omit labels without a client. Here, if clients are fewer than labels, client i has
// labels i, i + clients, i + 2 × clients, … first, so that as few as possible are omitted.
#include <algorithm>
#include <numeric>

#include "setup/partitioners/partitioner.h"

namespace rivulet {
namespace {

// Calls visit(client, labels) for every client. The labels are drawn again in each pass and never stored.
template <typename Visit>
void ForEachClientsLabels(const PartitionRequest& request, size_t labels, const Visit& visit) {
  const auto wanted = static_cast<size_t>(request.settings.integer("labels_per_client"));
  Draws draws = PartitionDraws(request.seed, PartitionOp::kClasses);
  std::vector<uint32_t> order(labels);
  std::iota(order.begin(), order.end(), 0u);
  std::vector<uint32_t> place = order;  // of each label in `order`
  for (int64_t client = 0; client < request.clients; ++client) {
    const auto bring = [&](size_t to, size_t from) {
      std::swap(order[to], order[from]);
      place[order[to]] = static_cast<uint32_t>(to);
      place[order[from]] = static_cast<uint32_t>(from);
    };
    size_t fixed = 0;
    const auto clients = static_cast<size_t>(request.clients);
    for (size_t label = static_cast<size_t>(client) % labels; label < labels && fixed < wanted; label += clients)
      bring(fixed++, place[label]);
    for (size_t i = fixed; i < wanted; ++i) bring(i, i + draws.Below(labels - i));
    visit(static_cast<size_t>(client), std::span<const uint32_t>(order).first(wanted));
  }
}

StatusOr<Shares> PartitionPathological(const PartitionRequest& request) {
  const auto& [data, clients, settings, given, label_feature, seed] = request;
  RIVULET_ASSIGN_OR_RETURN(const std::vector<int64_t> labels, ReadLabels(data, label_feature));
  const std::vector<std::vector<uint32_t>> piles = LabelPiles(labels, seed);
  const int64_t labels_per_client = settings.integer("labels_per_client");
  if (labels_per_client > static_cast<int64_t>(piles.size()))
    return InvalidArgument("data.partition.labels_per_client is {}, but the data have {} labels; give 1 to {}",
                           labels_per_client, piles.size(), piles.size());
  std::vector<int64_t> owners(piles.size());
  ForEachClientsLabels(request, piles.size(), [&](size_t, std::span<const uint32_t> mine) {
    for (const uint32_t label : mine) ++owners[label];
  });
  for (size_t label = 0; label < piles.size(); ++label) {
    const auto examples = static_cast<int64_t>(piles[label].size());
    if (owners[label] > examples)
      return InvalidArgument(
          "{} clients have label number {}, of which there are {} examples; lower data.partition.clients or "
          "data.partition.labels_per_client",
          owners[label], label, examples);
    if (owners[label] == 0)  // fewer clients than labels
      return InvalidArgument(
          "no client has label number {}; raise data.partition.clients or data.partition.labels_per_client", label);
  }
  std::vector<uint64_t> ends(static_cast<size_t>(clients));
  std::vector<uint32_t> examples;
  examples.reserve(labels.size());
  std::vector<int64_t> taken(piles.size());  // used parts of each label
  ForEachClientsLabels(request, piles.size(), [&](size_t client, std::span<const uint32_t> mine) {
    for (const uint32_t label : mine) {
      const auto count = static_cast<int64_t>(piles[label].size());
      const int64_t part = taken[label]++;
      examples.insert(examples.end(), piles[label].begin() + EvenCut(count, part, owners[label]),
                      piles[label].begin() + EvenCut(count, part + 1, owners[label]));
    }
    ends[client] = examples.size();
  });
  return Shares::OfNumbered(std::move(ends), std::move(examples));
}

RIVULET_PARTITIONER(
    pathological_registration,
    {.name = "pathological",
     .doc = "gives each client a fixed number of labels (Li et al. 2022)",
     .settings = {WithExample(Integer("labels_per_client", 2, "Labels that each client has.").Between(1, 1e6), "3")},
     .divide = PartitionPathological});

}  // namespace
}  // namespace rivulet
