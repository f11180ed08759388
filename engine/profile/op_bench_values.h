// Inputs, compilation and comparison of `rivulet bench op`, for host and device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/profile/op_bench.h"
#include "engine/program/program.h"

namespace rivulet {

// Variable i is made up with this and i, input i with i.
inline constexpr size_t kVariableSeed = 100;

// Numbers that no kernel stumbles over: in (0, 1], rounded ones, and indices 0.
void MakeUpValues(DType dtype, std::byte* data, int64_t elements, size_t seed);

void AppendFloats(const TensorView& view, std::vector<float>& out);

// All outputs are fetched; each variable has a buffer of its own.
Signature OpBenchSignature(const OpBenchGraph& bench);
// As few passes as there may be: the op itself is to be run.
CompileOptions OpBenchCompileOptions();

}  // namespace rivulet
