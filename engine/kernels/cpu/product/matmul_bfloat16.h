// Products of matrices in bfloat16, beside matmul.cc's choice for float32.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "engine/program/kernel.h"

namespace rivulet {

// The product aᵀ·b in float32 of factors that were widened from bfloat16, read as they were before: `a` [depth, rows],
// `b` [depth, columns]. Nothing where this CPU has no matrix unit, or where another type than bfloat16 is in `from`.
std::optional<Prepared> WideProductOfBFloat16(int64_t rows, int64_t columns, int64_t depth,
                                              std::span<const DType> from);

}  // namespace rivulet
