// A mechanism that multiplies all values of an update by one number that depends on its norm: a clip. The number is
// known before any value changes, so the aggregation can multiply while it adds (FloatRun::factor).
#pragma once

#include <cmath>
#include <limits>

#include "federated/mechanisms/flat_values.h"
#include "federated/mechanisms/mechanism.h"

namespace rivulet {

// The largest float32 that is at most `value`, which is finite and at least 0: rounding never lengthens an update.
inline float FloatUpTo(double value) {
  const double most = std::numeric_limits<float>::max();
  const auto nearest = static_cast<float>(value < most ? value : most);
  return static_cast<double>(nearest) <= value ? nearest : std::nextafter(nearest, 0.0f);
}

// Immutable, thread-safe.
class ScalingMechanism : public Mechanism {
 public:
  // Returns the factor for an update with the Euclidean norm `norm` over all its parts. Reads and extends `declared`;
  // call once per update. If the norm is not finite, the aggregation refuses the update with any factor. Errors as in
  // Apply.
  virtual StatusOr<float> FactorFor(double norm, Scalars& declared) const = 0;

  const ScalingMechanism* scaling() const final { return this; }
  Status Apply(std::span<const std::span<float>> parts, Draws&, Scalars& declared) const final {
    RIVULET_ASSIGN_OR_RETURN(const float factor, FactorFor(NormOf(parts), declared));
    if (factor == 1) return absl::OkStatus();
    for (const std::span<float> part : parts) ScaleBy(part, factor);
    return absl::OkStatus();
  }
};

}  // namespace rivulet
