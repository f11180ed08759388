// Proportional division among clients by weights that are computed or drawn again on each use: a million clients'
// weights are never stored.
#pragma once

#include <cstdint>
#include <functional>

#include "engine/base/draws.h"

namespace rivulet {

class Proportions {
 public:
  // The logarithm of a client's weight, -infinity for none; drawn from `draws` in order of the clients.
  using LogWeight = std::function<double(int64_t client, Draws& draws)>;
  // Computes the weights twice. `draws` is at the start of their stream.
  Proportions(int64_t clients, const Draws& draws, LogWeight log_weight);
  bool any() const { return total_ > 0; }  // a weight above 0
  // Visits every client with its part [begin, end) of 0 .. n - 1. Parts follow one another; each differs from its
  // proportion by less than one, and the last ends at n. Without a weight above 0 the last client gets all.
  void Cut(uint64_t n, const std::function<void(int64_t client, uint64_t begin, uint64_t end)>& visit) const;

 private:
  const int64_t clients_;
  const Draws draws_;
  const LogWeight log_weight_;
  double largest_ = 0;  // weights are relative to it, since all may be below the smallest double
  double total_ = 0;
};

}  // namespace rivulet
