// Matrix products by oneDNN, prepared once and shared by all threads.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/program/kernel.h"

namespace rivulet {

// Row-major C[m,n] = op(A)·op(B), inputs (A, B); op transposes the stored [k,m] or [n,k]. All tensors are of `dtype`:
// kFloat32, or kBFloat16 with sums in float32. nullopt if the library has no fast implementation on this CPU.
std::optional<Prepared> DnnlMatMul(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b,
                                   DType dtype = DType::kFloat32);

}  // namespace rivulet
