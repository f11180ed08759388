// Sequential random draws from one operation's stream: uniform and normal numbers, integers, permutations.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/philox.h"

namespace rivulet {

class Draws {
 public:
  Draws(const StreamKey& stream, uint32_t op) : stream_(stream), op_(op) {}
  uint32_t Word();
  uint64_t Word64();
  // Uniform on [0, bound), without bias (Lemire 2019); bound >= 1.
  uint64_t Below(uint64_t bound);
  double Uniform();  // [0, 1), 53 bits
  double Normal();   // mean 0, deviation 1; the same on every machine

 private:
  StreamKey stream_;
  uint32_t op_;
  uint64_t index_ = 0;
  PhiloxBlock block_{};
  int used_ = 4;
  bool has_spare_ = false;
  double spare_ = 0;
};

// Fisher–Yates over 0 .. n-1.
std::vector<uint32_t> Permutation(Draws& draws, uint32_t n);

}  // namespace rivulet
