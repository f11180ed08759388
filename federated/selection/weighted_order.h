// Random order without replacement, in which the probability of each next element is proportional to its weight among
// the remaining ones.
#pragma once

#include <memory>
#include <vector>

#include "federated/selection/selector.h"

namespace rivulet {

// `weights` are those of draw.known, in their order; everybody else's is `other`. At least 0 and finite: who weighs
// nothing comes last. Where all weights are one, it is the uniform order. O(|known| · log |known| + k).
std::unique_ptr<Order> WeightedOrder(const CohortDraw& draw, const std::vector<double>& weights, double other);

// What a member weighs by the examples that it last said it has, to the power of `exponent`: of who has said nothing
// yet the mean of all others, 1 where nobody has.
std::unique_ptr<Order> OrderByExamples(const CohortDraw& draw, double exponent);

}  // namespace rivulet
