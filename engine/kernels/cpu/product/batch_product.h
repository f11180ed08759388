// Many matrix products of one shape, for BatchMatMulV2 and Einsum.
#pragma once

#include <memory>
#include <string>

#include "engine/kernels/cpu/product/choose.h"
#include "engine/program/kernel.h"

namespace rivulet {

// C[m,n] = op(A)·op(B); B and C are row-major without gaps. Immutable. T is float, double, int32_t or int64_t; integers
// wrap around.
template <typename T>
class BatchProduct {
 public:
  static BatchProduct Plan(const ProductShape& shape, const KernelPolicy& policy);

  size_t scratch_bytes() const { return scratch_bytes_; }
  const char* implementation() const { return implementation_; }
  // State that an instance keeps for Run; often nullptr.
  std::unique_ptr<KernelState> NewState() const { return library_ == nullptr ? nullptr : library_->NewState(); }
  Status Run(const T* a, const T* b, T* c, std::byte* scratch, KernelState* state) const;

 private:
  ProductShape s_;
  BatchAlgorithm form_ = BatchAlgorithm::kLoop;
  const char* implementation_ = "loop";
  size_t scratch_bytes_ = 0;
  std::shared_ptr<const Kernel> library_;
};

}  // namespace rivulet
