// Float32 products of MatMul by the matrix unit, from factors split into bfloat16 (split_product.h). ChooseProduct
// (choose.h) decides when it pays.
#pragma once

#include "engine/kernels/cpu/product/bias_activation.h"
#include "engine/kernels/cpu/product/matrix_product.h"
#include "engine/program/kernel.h"

namespace rivulet {

// A product that can finish its rows while they are in the cache.
class FinishingProduct {
 public:
  virtual ~FinishingProduct() = default;
  // Run followed by AddBiasAndActivate of all rows, with the bits of both.
  virtual Status RunFinished(const KernelContext& context, const float* bias, FusedActivation activation) const = 0;
};

// The product by RunSplitProduct, and by `otherwise` if a factor has elements that cannot be split.
Prepared SplitMatMul(const MatrixProduct& product, Prepared otherwise);

}  // namespace rivulet
