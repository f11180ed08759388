// Optional capability of kernels that avoids a conversion between float32 and bfloat16 in memory
// (engine/program/cast_fusion.h).
#pragma once

#include <optional>
#include <span>

#include "engine/program/kernel.h"

namespace rivulet {

// A kernel that may read inputs as they are before a Cast.
class ReadsBeforeCast {
 public:
  virtual ~ReadsBeforeCast() = default;
  // What computes the same from other inputs: `from` has, for each of them, the type before its Cast, or kInvalid where
  // it is read as it is. As if each had been cast; sums may be in another order. Nothing where there is no such kernel,
  // or where it would not pay.
  virtual std::optional<Prepared> ReadingBeforeCast(std::span<const DType> from) const = 0;
};

}  // namespace rivulet
