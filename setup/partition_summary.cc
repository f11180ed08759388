#include "setup/partition_summary.h"

#include <algorithm>
#include <cmath>

#include "setup/partitioners/partitioner.h"

namespace rivulet {
namespace {

constexpr size_t kMaxLabels = 1000;

}  // namespace

StatusOr<PartitionSummary> Summarise(const Dataset& data, const Shares& shares, const std::string& label_feature,
                                     int64_t max_columns) {
  std::vector<int64_t> labels;
  if (!label_feature.empty()) {
    RIVULET_ASSIGN_OR_RETURN(labels, ReadLabels(data, label_feature));
  }
  PartitionSummary summary;
  summary.clients = shares.size();
  summary.examples = shares.examples();
  summary.labels = labels;
  std::sort(summary.labels.begin(), summary.labels.end());
  summary.labels.erase(std::unique(summary.labels.begin(), summary.labels.end()), summary.labels.end());
  const size_t known = summary.labels.size();
  if (known > kMaxLabels)
    return InvalidArgument("'{}' has {} different values; a picture of more than {} labels shows nothing",
                           label_feature, known, kMaxLabels);
  const int64_t columns = std::min(max_columns, summary.clients);
  for (int64_t column = 0; column <= columns; ++column)
    summary.starts.push_back(EvenCut(summary.clients, column, columns));
  summary.counts.assign(known, std::vector<int64_t>(static_cast<size_t>(columns)));
  summary.totals.resize(known);
  const auto place = [&](uint32_t example) {
    return static_cast<size_t>(std::ranges::lower_bound(summary.labels, labels[example]) - summary.labels.begin());
  };
  std::vector<int64_t> sizes(static_cast<size_t>(summary.clients)), mine(known);
  size_t column = 0;
  int64_t held = 0;  // sum over all clients
  for (int64_t client = 0; client < summary.clients; ++client) {
    while (summary.starts[column + 1] <= client) ++column;
    sizes[static_cast<size_t>(client)] = static_cast<int64_t>(shares.ExamplesOf(client).size());
    std::ranges::fill(mine, 0);
    if (known > 0)
      for (const uint32_t example : shares.ExamplesOf(client)) ++mine[place(example)];
    for (size_t label = 0; label < known; ++label) {
      held += mine[label] > 0;
      summary.totals[label] += mine[label];
      summary.counts[label][column] += mine[label];
    }
  }
  // A second pass, because the mixture of all examples is known only now.
  for (int64_t client = 0; client < summary.clients && known > 0; ++client) {
    const auto size = static_cast<double>(shares.ExamplesOf(client).size());
    if (size == 0) continue;
    std::ranges::fill(mine, 0);
    for (const uint32_t example : shares.ExamplesOf(client)) ++mine[place(example)];
    for (size_t label = 0; label < known; ++label)
      summary.distance += std::abs(static_cast<double>(mine[label]) / size -
                                   static_cast<double>(summary.totals[label]) / static_cast<double>(summary.examples)) /
                          2;
  }
  const auto clients = static_cast<double>(std::max<int64_t>(summary.clients, 1));
  summary.distance /= clients;
  summary.labels_per_client = static_cast<double>(held) / clients;
  std::sort(sizes.begin(), sizes.end());
  if (!sizes.empty()) {
    summary.smallest = sizes.front();
    summary.median = sizes[(sizes.size() - 1) / 2];
    summary.largest = sizes.back();
  }
  return summary;
}

}  // namespace rivulet
