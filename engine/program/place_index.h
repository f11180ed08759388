// Index of the places in variables' memory: finds the entries that overlap a range without a walk over all of them.
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

// Places overlap without being equal: a plan binds one flat vector and each weight as a slice of it, so that a list of
// users by variable would miss some. And a flat vector covers thousands of slices, so that a list of places by slice
// would hold it thousands of times. Each place therefore stands in the one or two cells that it touches of a grid as
// coarse as it is long, and a question goes through the grids that something stands in.
class PlaceIndex {
 public:
  void Add(const VariablePlace& place, size_t what) {
    if (place.bytes == 0) return;
    const int level = LevelOf(place.bytes);
    levels_ |= uint64_t{1} << level;
    const size_t first = place.offset >> level, last = (place.offset + place.bytes - 1) >> level;
    for (size_t cell = first; cell <= last; ++cell) cells_[{place.buffer, level, cell}].push_back(what);
  }

  // Whether `holds` is true of something that may overlap `place`: it is asked of all that does, and of some that lies
  // near; perhaps twice, in no order.
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
  // The grid whose cells are the shortest that are no shorter than `bytes`.
  static int LevelOf(size_t bytes) { return bytes > 1 ? std::bit_width(bytes - 1) : 0; }

  std::map<std::tuple<int, int, size_t>, std::vector<size_t>> cells_;  // by buffer, grid and position
  uint64_t levels_ = 0;                                                // the grids that something stands in
};

}  // namespace rivulet
