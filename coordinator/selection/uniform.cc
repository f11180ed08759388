#include "coordinator/selection/uniform.h"

#include <algorithm>

#include "federated/random/lazy_permutation.h"
#include "federated/random/streams.h"

namespace rivulet {

std::vector<std::string> SelectUniform(const std::vector<const std::string*>& sorted_candidates, int64_t count,
                                       uint64_t seed, int64_t round, int64_t attempt) {
  const auto n = static_cast<int64_t>(sorted_candidates.size());
  const int64_t k = std::min(n, std::max<int64_t>(count, 0));
  const Draws draws(
      StreamFor(seed, "", Purpose::kSelect, static_cast<uint32_t>(round), static_cast<uint16_t>(attempt - 1)), 0);
  LazyPermutation order(draws, n);
  std::vector<std::string> cohort;
  cohort.reserve(static_cast<size_t>(k));
  while (order.given() < k) cohort.push_back(*sorted_candidates[static_cast<size_t>(*order.Next())]);
  return cohort;
}

}  // namespace rivulet
