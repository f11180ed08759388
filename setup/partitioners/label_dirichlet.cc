// Divides each label over the clients in proportions drawn from Dirichlet(alpha) (Yurochkin et al., "Bayesian
// Nonparametric Federated Learning of Neural Networks", ICML 2019; "noniid-labeldir" in Li et al., "Federated Learning
// on Non-IID Data Silos: An Experimental Study", ICDE 2022; DirichletPartitioner in Flower). Clients differ in labels
// and in size. As in these papers, all is drawn again while a client would get fewer than min_examples.
#include <algorithm>

#include "setup/partitioners/by_label.h"

namespace rivulet {
namespace {

constexpr uint32_t kAttempts = 100;
constexpr int64_t kMaxWeights = 200'000'000;  // draws in total, for some seconds

StatusOr<Shares> PartitionLabelDirichlet(const PartitionRequest& request) {
  const auto& [data, clients, settings, given, label_feature, seed] = request;
  const double alpha = settings.number("alpha");
  const int64_t min_examples = settings.integer("min_examples");
  if (min_examples > data.size() / clients)
    return InvalidArgument("data.partition.min_examples is {}, but {} clients share {} examples; give 1 to {}",
                           min_examples, clients, data.size(), data.size() / clients);
  RIVULET_ASSIGN_OR_RETURN(const std::vector<int64_t> labels, ReadLabels(data, label_feature));
  const std::vector<std::vector<uint32_t>> piles = LabelPiles(labels, seed);
  const int64_t weights = clients * static_cast<int64_t>(piles.size());
  const auto attempts = static_cast<uint32_t>(std::clamp<int64_t>(kMaxWeights / weights, 1, kAttempts));
  uint64_t best = 0;
  for (uint32_t attempt = 0; attempt < attempts; ++attempt) {
    const LabelLaw law = [&, attempt](size_t label) {
      const auto stream = attempt * static_cast<uint32_t>(piles.size()) + static_cast<uint32_t>(label);
      return Proportions(request.clients, PartitionDraws(request.seed, PartitionOp::kLabelShares, stream),
                         [alpha](int64_t, Draws& draws) { return LogGamma(alpha, draws); });
    };
    LabelAssignment assignment = DealSizes(piles, clients, law);
    if (assignment.fewest >= static_cast<uint64_t>(min_examples)) return DealByLabel(piles, std::move(assignment), law);
    best = std::max(best, assignment.fewest);
  }
  return InvalidArgument(
      "in {} draws the smallest client got {} examples at most, but data.partition.min_examples asks for {}; lower it "
      "or "
      "data.partition.clients, or raise data.partition.alpha",
      attempts, best, min_examples);
}

RIVULET_PARTITIONER(label_dirichlet_registration,
                    {.name = "label_dirichlet",
                     .doc = "draws how each label is divided over the clients (Yurochkin et al. 2019)",
                     .settings = {AlphaSetting(),
                                  WithExample(Integer("min_examples", 1,
                                                      "Fewest examples of a client; the division is drawn again until "
                                                      "every client has so many.")
                                                  .Between(1, 1e6),
                                              "10")},
                     .divide = PartitionLabelDirichlet});

}  // namespace
}  // namespace rivulet
