// Products of matrices in bfloat16, besides matmul.cc's choice for float32.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "engine/program/kernel.h"

namespace rivulet {

// The product aᵀ·b in float32 of factors widened from bfloat16, reading the bfloat16 originals: `a` [depth, rows], `b`
// [depth, columns]. nullopt if this CPU has no matrix unit, or `from` has another type than bfloat16.
std::optional<Prepared> WideProductOfBFloat16(int64_t rows, int64_t columns, int64_t depth,
                                              std::span<const DType> from);

}  // namespace rivulet
