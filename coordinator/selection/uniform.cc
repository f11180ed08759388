#include "coordinator/selection/uniform.h"

#include "federated/random/streams.h"

namespace rivulet {

LazyPermutation UniformOrder(int64_t members, uint64_t seed, int64_t round, int64_t attempt, TaskKind kind) {
  const Draws draws(
      StreamFor(seed, "", Purpose::kSelect, static_cast<uint32_t>(round), static_cast<uint16_t>(attempt - 1)),
      static_cast<uint32_t>(kind));
  return LazyPermutation(draws, members);
}

}  // namespace rivulet
