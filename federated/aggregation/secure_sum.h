// Settings of a secure sum, as the signed plan states them. The protocols are in federated/secure, which an aggregation
// does not need.
#pragma once

#include <cstdint>
#include <string>

namespace rivulet {

// Sums of 16-bit limbs stay within a word of 32 bits for so many updates.
inline constexpr int64_t kMostSecureUpdates = 16384;
// With fewer bits after the point, rounding would dominate the values of an update.
inline constexpr int kLeastSecureFractionBits = 10;

struct SecureSum {
  std::string protocol = {};  // by name; "": sums are plain, and nothing below has a meaning
  int64_t min_cohort = 3;     // invited clients
  int64_t min_survivors = 3;  // clients in a sum
  int64_t max_colluding = 0;  // names of the population that a lying coordinator may control
  double drop_out = 0.1;      // the share of a cohort that may drop out
  int64_t least_sum = 1;      // honest clients in the smallest sum that a lying coordinator may learn
  bool on() const { return !protocol.empty(); }
  bool operator==(const SecureSum&) const = default;
};

}  // namespace rivulet
