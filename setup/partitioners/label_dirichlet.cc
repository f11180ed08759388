// Each label is divided over the clients in proportions drawn from Dirichlet(alpha) (Yurochkin et al., "Bayesian
// Nonparametric Federated Learning of Neural Networks", ICML 2019; "noniid-labeldir" in Li et al., "Federated Learning
// on Non-IID Data Silos: An Experimental Study", ICDE 2022; DirichletPartitioner in Flower). Clients differ in labels
// and in size. As there, all is drawn again while a client would get fewer than min_examples.
#include <algorithm>
#include <cmath>

#include "setup/partitioners/by_label.h"

namespace rivulet {
namespace {

constexpr uint32_t kAttempts = 100;
constexpr int64_t kMaxWeights = 200'000'000;  // drawn in all, some seconds' worth

}  // namespace

StatusOr<Shares> PartitionLabelDirichlet(const PartitionRequest& request) {
  const auto& [data, config, label_feature, seed] = request;
  const double alpha = config.alpha;
  if (!(alpha > 0) || !std::isfinite(alpha))
    return InvalidArgument("data.partition.alpha is {}; give a number above 0", alpha);
  if (config.min_examples < 1 || config.min_examples > data.size() / config.clients)
    return InvalidArgument("data.partition.min_examples is {}, but {} clients share {} examples; give 1 to {}",
                           config.min_examples, config.clients, data.size(), data.size() / config.clients);
  RIVULET_ASSIGN_OR_RETURN(const std::vector<int64_t> labels, ReadLabels(data, label_feature));
  const std::vector<std::vector<uint32_t>> piles = LabelPiles(labels, seed);
  const int64_t weights = config.clients * static_cast<int64_t>(piles.size());
  const auto attempts = static_cast<uint32_t>(std::clamp<int64_t>(kMaxWeights / weights, 1, kAttempts));
  uint64_t best = 0;
  for (uint32_t attempt = 0; attempt < attempts; ++attempt) {
    const LabelLaw law = [&, attempt](size_t label) {
      const auto stream = attempt * static_cast<uint32_t>(piles.size()) + static_cast<uint32_t>(label);
      return Proportions(config.clients, PartitionDraws(request.seed, PartitionOp::kLabelShares, stream),
                         [alpha](int64_t, Draws& draws) { return LogGamma(alpha, draws); });
    };
    LabelDeal deal = DealSizes(piles, config.clients, law);
    if (deal.fewest >= static_cast<uint64_t>(config.min_examples)) return DealByLabel(piles, std::move(deal), law);
    best = std::max(best, deal.fewest);
  }
  return InvalidArgument(
      "in {} draws the smallest client got {} examples at most, but data.partition.min_examples asks for {}; lower it or "
      "data.partition.clients, or raise data.partition.alpha",
      attempts, best, config.min_examples);
}

}  // namespace rivulet
