// Softmax and cross-entropy of rows. Each row is shifted by its largest element, so that no exponential overflows. NaN
// and +infinity in a row make it NaN. Sums run in 16 virtual lanes over blocks of 512 elements, and over blocks in
// order in double: the same bits on every CPU.
#pragma once

#include <cstdint>

namespace rivulet {

// `out` may be `in`.
void SoftmaxRows(const float* in, float* out, int64_t rows, int64_t classes);
void SoftmaxRows(const double* in, double* out, int64_t rows, int64_t classes);
void LogSoftmaxRows(const float* in, float* out, int64_t rows, int64_t classes);
void LogSoftmaxRows(const double* in, double* out, int64_t rows, int64_t classes);

// loss[row] = -Σ labels · log softmax(features), backprop = softmax(features) - labels. A label of 0 adds nothing,
// whatever its feature. `backprop` may be `features` or `labels`.
void CrossEntropyRows(const float* features, const float* labels, float* loss, float* backprop, int64_t rows,
                      int64_t classes);
void CrossEntropyRows(const double* features, const double* labels, double* loss, double* backprop, int64_t rows,
                      int64_t classes);

// The same with labels that are classes, which must be in [0, classes). `backprop` may be `features`.
void SparseCrossEntropyRows(const float* features, const int64_t* labels, float* loss, float* backprop, int64_t rows,
                            int64_t classes);
void SparseCrossEntropyRows(const double* features, const int64_t* labels, double* loss, double* backprop, int64_t rows,
                            int64_t classes);

}  // namespace rivulet
