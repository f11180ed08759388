// float32 products by the processor's matrix unit (AMX), which multiplies bfloat16. Each factor is split into three
// bfloat16 numbers with this sum. Of the nine products of parts, the six that matter in a float32 sum are computed
// (Henry, Tang, Heinecke: "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations",
// 2019). Six multiply-adds of the unit take less than half of the time of one by vectors.
//
// The omitted part of a product is at most 2^-22 of it, and 2^-26 on average, of either sign. Sums are float32, and of
// at most 16 terms before they are added to the total. So the error is that of any float32 sum, and less than that of
// one sequential sum. An element or product below 2^-110 is an exception: it loses at least its last 8 bits, because
// parts below the smallest normal number count as zero. An infinity, a NaN and a number above 3.39e38 cannot be split,
// and products with them are not computed here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/cpu/product/bias_activation.h"

namespace rivulet {

// C[m, n] = A·B. A's element (row, term) is at a[row * a_row + term * a_k], B's (term, column) at b[term * b_k + column
// * b_column]; in each pair one stride is 1.
struct SplitProduct {
  int64_t m = 0, n = 0, k = 0;
  int64_t a_row = 0, a_k = 1;
  int64_t b_k = 0, b_column = 1;
};

// Bytes of scratch, aligned to 64, for RunSplitProduct.
size_t SplitProductScratch(const SplitProduct& product);

// Applied to complete rows of C while they are in the cache: AddBiasAndActivate, if there is a bias.
struct SplitFinish {
  const float* bias = nullptr;
  FusedActivation activation = FusedActivation::kNone;
};

// Requires HasTiles(). False: a factor has an element that cannot be split, and C is undefined.
bool RunSplitProduct(const SplitProduct& product, const float* a, const float* b, float* c, std::byte* scratch,
                     const SplitFinish& finish = {});

}  // namespace rivulet
