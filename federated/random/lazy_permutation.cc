#include "federated/random/lazy_permutation.h"

#include <utility>

namespace rivulet {

// Returns the entry of `position`, or the free entry for it.
LazyPermutation::Displaced& LazyPermutation::Find(int64_t position) {
  const size_t mask = table_.size() - 1;
  // Fibonacci hashing: positions of a large population share high bits, and those of a small one are consecutive.
  size_t at = static_cast<size_t>(static_cast<uint64_t>(position) * 0x9E3779B97F4A7C15u >> 32) & mask;
  while (table_[at].position != position && table_[at].position >= 0) at = (at + 1) & mask;
  return table_[at];
}

void LazyPermutation::Grow() {
  std::vector<Displaced> before(table_.empty() ? 64 : 4 * table_.size());
  before.swap(table_);
  used_ = 0;
  for (const Displaced& entry : before) {
    if (entry.position < given_) continue;  // empty, or before `given_` and never needed again
    Find(entry.position) = entry;
    ++used_;
  }
}

std::optional<int64_t> LazyPermutation::Next() {
  if (given_ == n_) return std::nullopt;
  if (2 * (used_ + 1) > table_.size()) Grow();
  const int64_t here = given_;
  const int64_t there = here + static_cast<int64_t>(draws_.Below(static_cast<uint64_t>(n_ - here)));
  const Displaced& at_here = Find(here);
  const int64_t value_here = at_here.position < 0 ? here : at_here.value;
  ++given_;
  if (there == here) return value_here;
  Displaced& at_there = Find(there);
  if (at_there.position >= 0) return std::exchange(at_there.value, value_here);
  at_there = {there, value_here};
  ++used_;
  return there;
}

}  // namespace rivulet
