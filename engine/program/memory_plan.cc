#include "engine/program/memory_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

namespace rivulet {

// The largest first, because they have the least choice: a small tensor finds room in the gaps that large ones leave,
// but not the other way round. Best fit among gaps keeps the wide gaps for what is still to come. The best plan of all
// is NP-hard to find; this one costs a sort and a walk over the placed ones for each tensor, and depends on nothing but
// its input, so that the same graph has the same arena everywhere.
size_t PlanOffsets(std::span<Lifetime> lifetimes) {
  std::vector<size_t> by_size(lifetimes.size());
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  // Stable: equal sizes keep their order, or two standard libraries would plan two arenas.
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  std::vector<const Lifetime*> placed;  // by offset
  size_t arena_bytes = 0;
  for (const size_t index : by_size) {
    Lifetime& life = lifetimes[index];
    // Also an empty tensor gets an address of its own, which no kernel need treat apart.
    const size_t bytes = std::max<size_t>(RoundUp64(life.bytes), 64);
    size_t best = std::numeric_limits<size_t>::max(), best_gap = best, end = 0;
    for (const Lifetime* other : placed) {
      // Both ends are inclusive: the inputs and outputs of one call live at the same position, so an output never lands
      // on an input unless reuse in place has decided that it may.
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
