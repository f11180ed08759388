// Where matmul.cc has float32 products made by the matrix unit.
#pragma once

#include "engine/kernels/cpu/product/bias_activation.h"
#include "engine/kernels/cpu/product/matrix_product.h"
#include "engine/program/kernel.h"

namespace rivulet {

// A product that can finish its rows while they are near.
class FinishingProduct {
 public:
  virtual ~FinishingProduct() = default;
  // Run, and AddBiasAndActivate of all rows, with the bits of both.
  virtual Status RunFinished(const KernelContext& context, const float* bias, FusedActivation activation) const = 0;
};

// Whether RunSplitProduct (split_product.h) is there and faster than a library's product of vectors.
bool PaysToSplit(const MatrixProduct& product);

// The product by RunSplitProduct, and by `otherwise` where a factor has elements that it does not take.
Prepared SplitMatMul(const MatrixProduct& product, Prepared otherwise);

}  // namespace rivulet
