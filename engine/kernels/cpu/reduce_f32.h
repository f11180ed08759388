// Sums of floats carried in double, and extremes, vectorised; the bits are those of the plain loops in
// strided_reduce.h.
#pragma once

#include <cstdint>

namespace rivulet {

// The sum of a row, in 16 lanes that are joined as a tree.
double SumRowF32(const float* in, int64_t count);

// The largest and smallest element of a row of at least one, in 16 lanes; NaN, once met, stays.
float MaxRowF32(const float* in, int64_t count);
float MinRowF32(const float* in, int64_t count);

// sums[i] += in[row * stride + i] for each row in order; `width` sums.
void AddRowsF32(const float* in, int64_t stride, int64_t rows, double* sums, int64_t width);

}  // namespace rivulet
