#include "engine/base/draws.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/math.h"

namespace rivulet {

// A block of four words per counter: what is drawn is a function of the stream and of how many words were taken before,
// and of nothing else.
uint32_t Draws::Word() {
  if (used_ == 4) {
    block_ = stream_.Block(index_++, op_);
    used_ = 0;
  }
  return block_[static_cast<size_t>(used_++)];
}

uint64_t Draws::Word64() {
  const uint64_t low = Word();
  return low | uint64_t{Word()} << 32;
}

uint64_t Draws::Below(uint64_t bound) {
  RIVULET_CHECK(bound >= 1, "Below(0) has no value to draw");
  // Lemire, "Fast random integer generation in an interval" (2019): the high half of a 128-bit product is uniform once
  // the low halves below 2^64 mod bound are rejected.
  __extension__ using Wide = unsigned __int128;
  Wide product = Wide{Word64()} * bound;
  if (static_cast<uint64_t>(product) < bound) {
    const uint64_t threshold = (0 - bound) % bound;
    while (static_cast<uint64_t>(product) < threshold) product = Wide{Word64()} * bound;
  }
  return static_cast<uint64_t>(product >> 64);
}

double Draws::Uniform() { return static_cast<double>(Word64() >> 11) * 0x1p-53; }

double Draws::Normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  // Marsaglia's polar method: without sines, and with a logarithm that is the same on every machine.
  double x = 0, y = 0, square = 0;
  do {
    x = 2 * Uniform() - 1;
    y = 2 * Uniform() - 1;
    square = x * x + y * y;
  } while (square >= 1 || square == 0);
  const double factor = std::sqrt(-2.0 * math::Log(square) / square);
  spare_ = y * factor;
  has_spare_ = true;
  return x * factor;
}

// Fisher and Yates, from the end; the order of draws is part of what a seed means and cannot be changed.
std::vector<uint32_t> Permutation(Draws& draws, uint32_t n) {
  std::vector<uint32_t> order(n);
  std::iota(order.begin(), order.end(), uint32_t{0});
  for (uint32_t last = n; last > 1; --last) {
    std::swap(order[last - 1], order[static_cast<size_t>(draws.Below(last))]);
  }
  return order;
}

}  // namespace rivulet
