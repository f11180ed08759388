// Sums of numbers that do not depend on their order. A term, weight × value, is a pure function of both, rounded once
// to a multiple of 2^-32 (to nearest, ties to even). Terms are added as integers of 128 bits. Values below 2^32,
// weights below 2^29 and 2^31 addends stay within 2^124, so nothing ever overflows.
#pragma once

#include <cstdint>

namespace rivulet {

class WideSum {
 public:
  // Values beyond this limit, and NaN, cannot be added.
  static constexpr double kLimit = 0x1p32;
  static bool Takes(double value) { return value > -kLimit && value < kLimit; }

  WideSum() = default;
  WideSum(uint64_t low, uint64_t high) : low_(low), high_(high) {}
  // weight × value, for a value that Takes accepts and a weight of 0 to 2^29.
  static WideSum Of(int64_t weight, double value);
  void Add(WideSum other);
  WideSum Times(int64_t factor) const;  // 0 .. 2^8
  // The sum, rounded once.
  double ToDouble() const;
  // Returns true if the sum is possible for addends with this total weight.
  bool Within(int64_t weight) const;
  // Two's complement, for files.
  uint64_t low() const { return low_; }
  uint64_t high() const { return high_; }
  bool operator==(const WideSum&) const = default;

 private:
  uint64_t low_ = 0, high_ = 0;
};

}  // namespace rivulet
