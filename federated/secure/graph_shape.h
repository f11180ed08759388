// The number of neighbours k and the threshold t of a cohort's graph, and α, the smallest sum that it protects. All are
// functions of numbers in the signed plan and of the cohort's size, so that every client can compute them.
// docs/internals/secure-aggregation.md derives them.
#pragma once

#include <cstdint>

#include "engine/base/status.h"

namespace rivulet::secure {

struct GraphNeeds {
  int64_t members = 0;    // of the cohort
  int64_t colluding = 0;  // members that the coordinator may control
  int64_t dropped = 0;    // members that may drop out
  // A client has 2t - k or more colluding neighbours, in any graph of the cohort, with a probability below
  // 2^-privacy_bits. Half of the 128 bits are for colluders that choose their keys last and try 2^64 graphs.
  double privacy_bits = 128;
  // A client has fewer than t neighbours that stay, in any cohort, with a probability below 2^-correctness_bits.
  double correctness_bits = 30;
  // The least α (SmallestHonestSum) that the plan asks for; 1: none.
  int64_t least_sum = 1;
};

struct GraphShape {
  int neighbours = 0;  // k; even, or members - 1
  int threshold = 0;   // t: shares that give a secret, and signatures that a client asks for
  // Every two members are neighbours, and each holds a share of its own secrets (Bonawitz et al. 2017). Else each
  // member's shares are with its k neighbours (Bell et al. 2020).
  bool complete = false;

  int holders() const { return complete ? neighbours + 1 : neighbours; }  // of shares of one member's secret
  bool operator==(const GraphShape&) const = default;
};

// The least even k, and for it the least t. With fewer than 100 members, or where k would pass half of the others, the
// graph is complete and t is ⌊2n/3⌋ + 1. FAILED_PRECONDITION: fewer than 3 members; more colluding or dropped members
// than the complete graph bears; or its α is below `least_sum`.
StatusOr<GraphShape> ChooseGraph(const GraphNeeds& needs);

// log2 of n·P[at least `least` of k neighbours collude] and of n·P[fewer than t of k neighbours stay], where neighbours
// are drawn uniformly from the n - 1 others. Minus infinity where it cannot be.
double Log2ManyColluding(const GraphNeeds& needs, int neighbours, int64_t least);
double Log2FewStaying(const GraphNeeds& needs, int neighbours, int threshold);

// The eigenvalue that a client accepts as the second largest of its graph's, in absolute value: a tenth above
// 2√(k - 1), which random regular graphs approach. Complete graphs: 1.
double EigenvalueBound(const GraphShape& shape);

// α: the least number of honest clients whose sum a lying coordinator could learn, by expander mixing with
// EigenvalueBound. At least 1.
int64_t SmallestHonestSum(const GraphNeeds& needs, const GraphShape& shape);

}  // namespace rivulet::secure
