// Transcendental functions of float rows, called inside other kernels.
#pragma once

#include <cstddef>

namespace rivulet {

// out[i] = e^(in[i] - shift). `out` may be `in`. The same bits on every CPU.
void ExpOfShifted(const float* in, float shift, float* out, size_t count);

// In place; the same bits on every CPU.
void TanhOfRow(float* values, size_t count);
void SigmoidOfRow(float* values, size_t count);

}  // namespace rivulet
