// Iteration over runs of values in blocks of one size, for codecs that process one block at a time.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "federated/codecs/float_run.h"

namespace rivulet {

// Calls body(values) for each `kValues` values of wire order, then for the remaining ones. `block` is working memory.
template <size_t kValues, typename Body>
void EachBlock(std::span<const FloatRun> runs, std::array<float, kValues>& block, const Body& body) {
  size_t filled = 0;
  const auto flush = [&] {
    body(std::span<const float>(block).first(filled));
    filled = 0;
  };
  EachValue(runs, [&](float value) {
    block[filled++] = value;
    if (filled == kValues) flush();
  });
  if (filled > 0) flush();
}

}  // namespace rivulet
