// Settings of a secure sum from the signed plan. The protocols are in federated/secure; an aggregation does not depend
// on them.
#pragma once

#include <cstdint>
#include <string>

namespace rivulet {

// With so many updates, sums of 16-bit limbs still fit 32-bit words.
inline constexpr int64_t kMostSecureUpdates = 16384;
// With fewer fraction bits, rounding would dominate the values of an update.
inline constexpr int kLeastSecureFractionBits = 10;

struct SecureSum {
  std::string protocol = {};  // name; "": sums are not secure, and the other fields have no effect
  int64_t min_cohort = 3;     // invited clients
  int64_t min_survivors = 3;  // clients in a sum
  int64_t max_colluding = 0;  // clients that a malicious coordinator may control
  double drop_out = 0.1;      // the largest share of a cohort that may drop out
  int64_t least_sum = 1;      // honest clients in the smallest sum that a malicious coordinator may learn
  bool on() const { return !protocol.empty(); }
  bool operator==(const SecureSum&) const = default;
};

}  // namespace rivulet
