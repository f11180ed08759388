// Random order without replacement, in which the probability of each next element is proportional to its weight among
// the remaining ones.
#pragma once

#include <memory>
#include <vector>

#include "federated/selection/selector.h"

namespace rivulet {

// `weights` are for draw.known, in order; all other clients have the weight `other`. Weights are finite and at least 0;
// clients of weight 0 come last. If all equal `other`, it is the uniform order. O(|known| · log |known| + k).
std::unique_ptr<Order> WeightedOrder(const CohortDraw& draw, const std::vector<double>& weights, double other);

// Weights each client by the number of examples in its last report, to the power of `exponent`. A client without a
// report has the mean weight of the others, or 1 if there are no reports.
std::unique_ptr<Order> OrderByExamples(const CohortDraw& draw, double exponent);

}  // namespace rivulet
