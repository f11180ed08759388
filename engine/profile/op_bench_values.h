// Inputs, compilation and comparison of `rivulet bench op`, for host and device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/profile/op_bench.h"
#include "engine/program/program.h"

namespace rivulet {

// Variable i is filled with the seed kVariableSeed + i, input i with the seed i.
inline constexpr size_t kVariableSeed = 100;

// Fills `data` with values that are safe for all kernels: rounded numbers in (0, 1], and 0 for indices.
void MakeUpValues(DType dtype, std::byte* data, int64_t elements, size_t seed);

void AppendFloats(const TensorView& view, std::vector<float>& out);

// Returns a signature that fetches all outputs; each variable has a separate buffer.
Signature OpBenchSignature(const OpBenchGraph& bench);
// Returns options with as few passes as possible, so that the op itself runs.
CompileOptions OpBenchCompileOptions();

}  // namespace rivulet
