// Vectorised functions over a row of attention scores. Sums run in eight lanes of double, element i in lane i mod 8.
// Lanes are joined as ((0+4)+(2+6)) + ((1+5)+(3+7)). The bits are the same on every CPU and equal those of
// attention.cc's loops for doubles.
#pragma once

#include <cstddef>

namespace rivulet {

void ScaleRow(float* row, float factor, size_t count);
// The largest element; -infinity for an empty row; ignores NaN.
float LargestOfRow(const float* row, size_t count);
// Replaces row[i] by e^(row[i] - shift); returns the sum.
double ExpAndSumOfRow(float* row, float shift, size_t count);
double DotOfRows(const float* a, const float* b, size_t count);
// gradient[i] = probability[i] · (gradient[i] - mean)
void SoftmaxGradientOfRow(const float* probability, float mean, float* gradient, size_t count);
// gradient[i] *= slope[i]
void TimesRow(const float* slope, float* gradient, size_t count);

}  // namespace rivulet
