// Vectorised float sums in double, and extremes. The bits are those of the plain loops in strided_reduce.h.
#pragma once

#include <cstdint>

namespace rivulet {

// The sums of rows of `count` elements, rows `stride` apart, each in 16 lanes that are joined as a tree.
void SumRowsF32(const float* in, int64_t stride, int64_t count, int64_t rows, double* sums);

// The largest and smallest elements of such rows, in 16 lanes; NaN is kept.
void MaxRowsF32(const float* in, int64_t stride, int64_t count, int64_t rows, float* largest);
void MinRowsF32(const float* in, int64_t stride, int64_t count, int64_t rows, float* least);

// sums[i] += in[row * stride + i] for each row in order; `width` sums.
void AddRowsF32(const float* in, int64_t stride, int64_t rows, double* sums, int64_t width);

}  // namespace rivulet
