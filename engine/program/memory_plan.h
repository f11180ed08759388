// Assignment of storages to offsets in the arena: storages with disjoint lifetimes may share bytes.
#pragma once

#include <cstddef>
#include <span>

namespace rivulet {

struct Lifetime {
  size_t bytes = 0;
  int first = 0, last = 0;  // positions, both inclusive
  size_t offset = 0;        // set by PlanOffsets, a multiple of 64
};

// Greedy by size (Pisarchyk & Lee, "Efficient memory management for deep neural net inference", 2020, §4.2): the
// largest first, each in the smallest sufficient gap between storages with overlapping lifetimes. Deterministic.
// Returns the arena's bytes.
size_t PlanOffsets(std::span<Lifetime> lifetimes);

inline size_t RoundUp64(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace rivulet
