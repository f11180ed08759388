// Selection of the passes that run when a program is compiled.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rivulet {

struct PassOptions {
  // Names of excluded passes ("fuse_products"); all others run. An unknown name is refused.
  std::vector<std::string> without;
  // Limit of a program's arena, in bytes; 0: none. Values kept
  // for a backward pass are recomputed until the plan fits.
  size_t memory_budget_bytes = 0;

  // Limit of folded values: values known before the run that take more bytes are computed in every run, unless their
  // inputs are as large. Programs must not contain large constants that a kernel computes faster than memory delivers
  // them.
  size_t max_folded_bytes = size_t{1} << 20;

  bool Runs(std::string_view pass) const { return std::find(without.begin(), without.end(), pass) == without.end(); }
};

}  // namespace rivulet
