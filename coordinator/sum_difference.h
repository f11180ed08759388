// Warning of two sums whose clients are nearly the same. Their difference reveals the clients that are in one sum
// alone, as far as the updates of the others are alike. It is exact for two attempts at one version, if the first was
// abandoned after its sum was read.
#pragma once

#include <cstdint>
#include <set>
#include <string>

namespace rivulet {

// Comparison of successive sums. Not thread-safe. Memory: the names of one sum.
class SumDifference {
 public:
  // `least`: the number of clients in the smallest sum that the plan allows (privacy.min_survivors).
  explicit SumDifference(int64_t least) : least_(least) {}
  // Records that a sum of these clients was read. Gives a warning if it differs from the previous sum by 1 to least - 1
  // clients, counting those in either one alone; else "".
  std::string Read(std::set<std::string> clients);

 private:
  const int64_t least_;
  std::set<std::string> before_;  // empty: no sum was read
};

}  // namespace rivulet
