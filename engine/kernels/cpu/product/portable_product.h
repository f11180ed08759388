// Products whose bits do not depend on the CPU. Each element of the result is one sum in order of k, and every term is
// rounded before it is added (no fused multiply-add), for any vector length. Convolutions and products use it under
// KernelPolicy::portable.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rivulet {

// C[row, column] = Σ over k of a[row · a_row + k · a_k] · b[k · b_row + column], starting from C's old value if `add`.
// C's rows are c_row elements apart; columns of B and C are adjacent.
struct PortableProduct {
  int64_t m = 0, n = 0, k = 0;
  int64_t a_row = 0, a_k = 1;
  int64_t b_row = 0, c_row = 0;
  bool add = false;
};

void RunPortableProduct(const PortableProduct& product, const float* a, const float* b, float* c);
void RunPortableProduct(const PortableProduct& product, const double* a, const double* b, double* c);

}  // namespace rivulet
