// A part of several updates that were trained together on a device and stay there. The device adds them, and only sums
// reach the host.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace rivulet {

struct FoldState;  // federated/aggregation/fixed_point.h

// Updates are numbered; a PartView says which it is of. Not thread-safe.
class DevicePart {
 public:
  virtual ~DevicePart() = default;
  virtual int64_t elements() const = 0;
  // Whose values these are: what it decodes to, where it is not transparent (federated/codecs/codec.h).
  virtual std::string_view codec() const { return "f32"; }

  // What became of an update.
  struct Folded {
    int64_t taken = 0;  // values before the first that is bad; all, where none is
    float bad = 0;      // that value
  };
  // For each of `updates`: adds sign × round(value × its scale) to `sums`, of the whole part in wire order, unless one
  // of its values is bad, as AddToSums says; then nothing of that update is added. The integers are AddToSums's, to the
  // bit; `states` become what they would, but for the last bits of a norm. RESOURCE_EXHAUSTED, INTERNAL: nothing was
  // added.
  virtual StatusOr<std::vector<Folded>> Fold(std::span<const int32_t> updates, std::span<const double> scales,
                                             int value_bits, int sign, std::span<int64_t> sums,
                                             std::span<FoldState> states) const = 0;
  virtual StatusOr<std::vector<Folded>> Fold(std::span<const int32_t> updates, std::span<const double> scales,
                                             int value_bits, int sign, std::span<int32_t> sums,
                                             std::span<FoldState> states) const = 0;
};

}  // namespace rivulet
