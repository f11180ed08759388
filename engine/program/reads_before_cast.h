// Optional capability of kernels that avoids a conversion between float32 and bfloat16 in memory
// (engine/program/cast_fusion.h).
#pragma once

#include <optional>
#include <span>

#include "engine/program/kernel.h"

namespace rivulet {

// A kernel that may read inputs in their type before a Cast.
class ReadsBeforeCast {
 public:
  virtual ~ReadsBeforeCast() = default;
  // Returns a kernel for other inputs: `from` has, for each input, the type before its Cast, or kInvalid if it is not
  // cast. Results are as if the inputs were cast; sums may have another order. nullopt: no such kernel, or it would be
  // slower.
  virtual std::optional<Prepared> ReadingBeforeCast(std::span<const DType> from) const = 0;
};

}  // namespace rivulet
