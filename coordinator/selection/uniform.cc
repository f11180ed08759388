#include "coordinator/selection/uniform.h"

#include <algorithm>

#include "federated/random/lazy_permutation.h"
#include "federated/random/streams.h"

namespace rivulet {

std::vector<int64_t> SelectUniform(int64_t members, int64_t count, uint64_t seed, int64_t round, int64_t attempt) {
  const int64_t k = std::min(members, std::max<int64_t>(count, 0));
  const Draws draws(
      StreamFor(seed, "", Purpose::kSelect, static_cast<uint32_t>(round), static_cast<uint16_t>(attempt - 1)), 0);
  LazyPermutation order(draws, members);
  std::vector<int64_t> cohort;
  cohort.reserve(static_cast<size_t>(k));
  while (order.given() < k) cohort.push_back(*order.Next());
  return cohort;
}

}  // namespace rivulet
