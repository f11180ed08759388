// Selection of the passes that run when a program is compiled.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rivulet {

struct PassOptions {
  // Names of passes that are left out ("fuse_products"); all others run. An unknown name is refused.
  std::vector<std::string> without;
  // Bytes of arena that a program may use; 0: as many as it needs. Values that a backward pass keeps are computed again
  // until the plan fits.
  size_t memory_budget_bytes = 0;

  // Values that are known before the run and take more bytes than this are computed in every run all the same, unless
  // what they are computed from takes as many: a program holds no large constants that a kernel makes faster than
  // memory gives them.
  size_t max_folded_bytes = size_t{1} << 20;

  bool Runs(std::string_view pass) const { return std::find(without.begin(), without.end(), pass) == without.end(); }
};

}  // namespace rivulet
