// Each client draws its label proportions from Dirichlet(alpha) and fills its share by them, without replacement (Hsu,
// Qi and Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification", 2019).
// With sizes other than even this is what Acar et al. (FedDyn, ICLR 2021) do, called inner Dirichlet in Flower.
#include <algorithm>

#include "engine/base/math.h"
#include "setup/partitioners/partitioner.h"
#include "setup/partitioners/sizes.h"

namespace rivulet {
namespace {

StatusOr<Shares> PartitionDirichlet(const PartitionRequest& request) {
  const auto& [data, clients, settings, given, label_feature, seed] = request;
  const double alpha = settings.number("alpha");
  RIVULET_ASSIGN_OR_RETURN(const std::vector<int64_t> labels, ReadLabels(data, label_feature));
  // Each class is a shuffled pile; a client takes from its end.
  std::vector<std::vector<uint32_t>> piles = LabelPiles(labels, seed);
  Draws proportions = PartitionDraws(seed, PartitionOp::kProportions), pick = PartitionDraws(seed, PartitionOp::kPick);
  RIVULET_ASSIGN_OR_RETURN(std::vector<uint64_t> ends, SizeEnds(request));
  std::vector<uint32_t> examples;
  examples.reserve(labels.size());
  std::vector<double> weights(piles.size());
  for (int64_t client = 0; client < clients; ++client) {
    for (double& weight : weights) weight = LogGamma(alpha, proportions);
    const double largest = *std::max_element(weights.begin(), weights.end());
    for (double& weight : weights) weight = math::Exp(weight - largest);
    const uint64_t end = ends[static_cast<size_t>(client)];
    while (examples.size() < end) {
      double total = 0;
      for (size_t label = 0; label < piles.size(); ++label) total += piles[label].empty() ? 0 : weights[label];
      if (!(total > 0)) {
        // The labels that this client wants are used up: it draws from the rest in proportion to their numbers.
        for (size_t label = 0; label < piles.size(); ++label) weights[label] = static_cast<double>(piles[label].size());
        continue;
      }
      double at = pick.Uniform() * total;
      size_t chosen = piles.size();
      for (size_t label = 0; label < piles.size(); ++label) {
        if (piles[label].empty() || weights[label] == 0) continue;
        chosen = label;  // the last candidate also takes the remainder of rounding
        at -= weights[label];
        if (at < 0) break;
      }
      examples.push_back(piles[chosen].back());
      piles[chosen].pop_back();
    }
  }
  return Shares::OfNumbered(std::move(ends), std::move(examples));
}

RIVULET_PARTITIONER(dirichlet_registration, {.name = "dirichlet",
                                             .doc = "draws each client's label proportions (Hsu et al. 2019)",
                                             .settings = {AlphaSetting(), SizesSetting()},
                                             .divide = PartitionDirichlet,
                                             .chooses = ChoosesSizes()});

}  // namespace
}  // namespace rivulet
