// A float32 factor B[k, n] of many products with few rows, split once for all of them (split_product.h): every step of
// a sequence multiplies its states with the same weights.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rivulet {

// Bytes, aligned to 64, of a split factor, and of the memory that a product with it needs for its rows.
size_t SplitFactorBytes(int64_t n, int64_t k);
size_t SplitRowsBytes(int64_t k);

// Requires HasTiles(). B's element (term, column) is at b[term * b_k + column * b_column]; one of the strides is 1.
// False: an element cannot be split, and `packed` is undefined.
bool PackSplitFactor(const float* b, int64_t b_k, int64_t b_column, int64_t n, int64_t k, std::byte* packed);

// C[m, n] = A·B; A's element (row, term) is at a[row * a_row + term]. If an element of A cannot be split, the product
// uses vectors of the rejoined B.
void SplitFactorProduct(const float* a, int64_t a_row, const std::byte* packed, float* c, int64_t m, int64_t n,
                        int64_t k, std::byte* rows);

}  // namespace rivulet
