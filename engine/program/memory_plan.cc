#include "engine/program/memory_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

namespace rivulet {

// The largest storages come first, because they have the least choice: a small tensor fits into gaps that large ones
// leave, but not vice versa. Best fit among gaps keeps wide gaps for later storages. The optimal plan is NP-hard to
// find; this one costs a sort and a pass over the placed storages per tensor, and depends only on its input, so that
// the same graph has the same arena everywhere.
size_t PlanOffsets(std::span<Lifetime> lifetimes) {
  std::vector<size_t> by_size(lifetimes.size());
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  // Stable: otherwise equal sizes could be ordered differently by standard libraries, giving different arenas.
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  std::vector<const Lifetime*> placed;  // by offset
  size_t arena_bytes = 0;
  for (const size_t index : by_size) {
    Lifetime& life = lifetimes[index];
    // An empty tensor also gets a separate address, so that kernels need no special case.
    const size_t bytes = std::max<size_t>(RoundUp64(life.bytes), 64);
    size_t best = std::numeric_limits<size_t>::max(), best_gap = best, end = 0;
    for (const Lifetime* other : placed) {
      // Both ends are inclusive: the inputs and outputs of one call live at the same position, so an output never
      // overlaps an input unless reuse in place has decided that it may.
      if (other->last < life.first || other->first > life.last) continue;
      if (other->offset > end && other->offset - end >= bytes && other->offset - end < best_gap) {
        best = end;
        best_gap = other->offset - end;
      }
      end = std::max(end, other->offset + std::max<size_t>(RoundUp64(other->bytes), 64));
    }
    life.offset = best == std::numeric_limits<size_t>::max() ? end : best;
    arena_bytes = std::max(arena_bytes, life.offset + bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), &life,
                                   [](const Lifetime* a, const Lifetime* b) { return a->offset < b->offset; }),
                  &life);
  }
  return arena_bytes;
}

}  // namespace rivulet
