// Index of places in variables' memory: finds entries that overlap a range without a search over all entries.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/program/storage.h"

namespace rivulet {

// Places may overlap without being equal: a plan binds one flat vector and each weight as a slice of it, so that a list
// of users by variable would miss some. And a flat vector covers thousands of slices, so that a list by slice would
// contain it thousands of times. So each place is in the one or two cells that it touches of a grid of about its
// length, and a query searches the grids that are not empty.
class PlaceIndex {
 public:
  void Add(const VariablePlace& place, size_t what) {
    if (place.bytes == 0) return;
    const int level = LevelOf(place.bytes);
    levels_ |= uint64_t{1} << level;
    const size_t first = place.offset >> level, last = (place.offset + place.bytes - 1) >> level;
    for (size_t cell = first; cell <= last; ++cell) cells_[{place.buffer, level, cell}].push_back(what);
  }

  // Returns true if `holds` is true for an entry that may overlap `place`: it is called for all that overlap, and for
  // some neighbours; perhaps twice, in any order.
  template <typename Holds>
  bool AnyOf(const VariablePlace& place, const Holds& holds) const {
    if (place.bytes == 0) return false;
    for (uint64_t left = levels_; left != 0; left &= left - 1) {
      const int level = std::countr_zero(left);
      const size_t first = place.offset >> level, last = (place.offset + place.bytes - 1) >> level;
      const auto end = cells_.upper_bound({place.buffer, level, last});
      for (auto cell = cells_.lower_bound({place.buffer, level, first}); cell != end; ++cell)
        for (const size_t what : cell->second)
          if (holds(what)) return true;
    }
    return false;
  }

 private:
  // The grid with the shortest cells of at least `bytes`.
  static int LevelOf(size_t bytes) { return bytes > 1 ? std::bit_width(bytes - 1) : 0; }

  std::map<std::tuple<int, int, size_t>, std::vector<size_t>> cells_;  // by buffer, grid and position
  uint64_t levels_ = 0;                                                // the grids that are not empty
};

}  // namespace rivulet
