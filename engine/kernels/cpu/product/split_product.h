// float32 products by the processor's matrix unit (AMX), which multiplies bfloat16: each factor is taken apart into
// three bfloat16 numbers whose sum it is, and of the nine products of parts the six that a float32 sum can tell are
// made (Henry, Tang, Heinecke: "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision
// Computations", 2019). Six of the unit's multiply-adds take less than half of the time of a vector's one.
//
// What is left out of a product is at most 2^-22 of it, and 2^-26 in the mean, of either sign; sums are float32, and of
// no more than 16 terms before they meet the sum of all. So the error is that of any float32 sum, and less than that of
// one sum from the first term to the last. Not so where an element or a product is below 2^-110: parts of it are below
// the smallest normal number, which counts as zero, and its last 8 bits are lost, or more. An infinity, a NaN and what
// is above 3.39e38 has no such parts, and products with them are not made.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/cpu/product/bias_activation.h"

namespace rivulet {

// C[m, n] = A·B. A's element (row, term) is at a[row * a_row + term * a_k], B's (term, column) at b[term * b_k + column
// * b_column]; of each pair of strides one is 1.
struct SplitProduct {
  int64_t m = 0, n = 0, k = 0;
  int64_t a_row = 0, a_k = 1;
  int64_t b_k = 0, b_column = 1;
};

// Bytes of scratch, aligned to 64, that RunSplitProduct takes.
size_t SplitProductScratch(const SplitProduct& product);

// What happens to rows of C when they are whole, while they are near: AddBiasAndActivate, where there is a bias.
struct SplitFinish {
  const float* bias = nullptr;
  FusedActivation activation = FusedActivation::kNone;
};

// Where HasTiles(). False: a factor has an element that cannot be taken apart, and C has no meaning.
bool RunSplitProduct(const SplitProduct& product, const float* a, const float* b, float* c, std::byte* scratch,
                     const SplitFinish& finish = {});

}  // namespace rivulet
