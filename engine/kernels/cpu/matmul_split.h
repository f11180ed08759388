// Where matmul.cc has float32 products made by the matrix unit.
#pragma once

#include "engine/kernels/cpu/matrix_product.h"
#include "engine/program/kernel.h"

namespace rivulet {

// Whether RunSplitProduct (split_product.h) is there and faster than a library's product of vectors.
bool PaysToSplit(const MatrixProduct& product);

// The product by RunSplitProduct, and by `otherwise` where a factor has elements that it does not take.
Prepared SplitMatMul(const MatrixProduct& product, Prepared otherwise);

}  // namespace rivulet
