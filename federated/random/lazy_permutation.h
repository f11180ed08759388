// A random permutation of 0 .. n-1, generated lazily from the start. Fisher–Yates stores only the displaced elements,
// so k elements of a million cost O(k).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/base/draws.h"

namespace rivulet {

class LazyPermutation {
 public:
  // n >= 0. The elements of a Fisher–Yates shuffle that swaps positions i and i + draws.Below(n - i), for i = 0, 1, ….
  LazyPermutation(const Draws& draws, int64_t n) : draws_(draws), n_(n) {}
  // Returns elements 0, 1, … in turn; nullopt after all n.
  std::optional<int64_t> Next();
  int64_t given() const { return given_; }

 private:
  // The value at a position that a swap has changed; other positions hold their own index.
  struct Displaced {
    int64_t position = -1, value = 0;
  };
  Displaced& Find(int64_t position);
  void Grow();

  Draws draws_;
  const int64_t n_;
  int64_t given_ = 0;
  std::vector<Displaced> table_;  // open addressing; a power of two, at most half full
  size_t used_ = 0;
};

}  // namespace rivulet
