// A part of several updates that were trained together on a device and whose values stay there. The device adds them,
// and only sums are copied to the host.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace rivulet {

struct FoldState;  // federated/aggregation/fixed_point.h

// Updates are numbered; a PartView gives the number. Not thread-safe.
class DevicePart {
 public:
  virtual ~DevicePart() = default;
  virtual int64_t elements() const = 0;
  // The codec of the values. Fold adds the decoded values if it is not transparent (federated/codecs/codec.h).
  virtual std::string_view codec() const { return "f32"; }

  // Result of one update.
  struct Folded {
    int64_t taken = 0;  // number of values before the first bad one; all, if none is bad
    float bad = 0;      // that value
  };
  // For each of `updates`: adds sign × round(value × its scale) to `sums` of the whole part in wire order. If one of
  // its values is bad in the sense of AddToSums, nothing of that update is added. The integers equal those of
  // AddToSums bit by bit; `states` do too, apart from the last bits of a norm. RESOURCE_EXHAUSTED, INTERNAL: nothing
  // was added.
  virtual StatusOr<std::vector<Folded>> Fold(std::span<const int32_t> updates, std::span<const double> scales,
                                             int value_bits, int sign, std::span<int64_t> sums,
                                             std::span<FoldState> states) const = 0;
  virtual StatusOr<std::vector<Folded>> Fold(std::span<const int32_t> updates, std::span<const double> scales,
                                             int value_bits, int sign, std::span<int32_t> sums,
                                             std::span<FoldState> states) const = 0;
};

}  // namespace rivulet
