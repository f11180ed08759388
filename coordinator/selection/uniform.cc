#include "coordinator/selection/uniform.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "federated/random/streams.h"

namespace rivulet {

std::vector<std::string> SelectUniform(const std::vector<const std::string*>& sorted_candidates, int64_t count,
                                       uint64_t seed, int64_t round, int64_t attempt) {
  const size_t n = sorted_candidates.size();
  const size_t k = std::min(n, static_cast<size_t>(std::max<int64_t>(count, 0)));
  Draws draws(StreamFor(seed, "", Purpose::kSelect, static_cast<uint32_t>(round), static_cast<uint16_t>(attempt - 1)),
              0);
  // The first k steps of Fisher–Yates.
  std::vector<uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  std::vector<std::string> cohort;
  cohort.reserve(k);
  for (size_t i = 0; i < k; ++i) {
    const size_t j = i + static_cast<size_t>(draws.Below(n - i));
    std::swap(order[i], order[j]);
    cohort.push_back(*sorted_candidates[order[i]]);
  }
  return cohort;
}

}  // namespace rivulet
