// Many matrix products of one shape, for BatchMatMulV2 and Einsum. The choice by shape is a static table: a single dot
// is summed in 16 lanes, small sides of float32 go to our own kernels, large ones to oneDNN, everything else (float64,
// integers, the portable kernels) to loops that sum from the first term to the last.
#pragma once

#include <memory>
#include <string>

#include "engine/program/kernel.h"

namespace rivulet {

struct ProductShape {
  int64_t m = 0, n = 0, k = 0;
  int64_t a_row = 0, a_k = 1;  // op(A)'s element (row, term) is at a[row * a_row + term * a_k]
  bool b_transposed = false;   // B is stored [n, k] instead of [k, n]
  double flops() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
};

// C[m,n] = op(A)·op(B); B and C are row-major without gaps. Immutable once made. T is float, double, int32_t or
// int64_t; integers wrap around.
template <typename T>
class BatchProduct {
 public:
  static BatchProduct Plan(const ProductShape& shape, const KernelPolicy& policy);

  size_t scratch_bytes() const { return scratch_bytes_; }
  const char* implementation() const { return implementation_; }
  // What the instance keeps for Run; often nullptr.
  std::unique_ptr<KernelState> NewState() const { return library_ == nullptr ? nullptr : library_->NewState(); }
  Status Run(const T* a, const T* b, T* c, std::byte* scratch, KernelState* state) const;

 private:
  enum class Form { kLoop, kSingle, kPanel, kDot, kTransposeThenPanel, kLibrary };
  ProductShape s_;
  Form form_ = Form::kLoop;
  const char* implementation_ = "loop";
  size_t scratch_bytes_ = 0;
  std::shared_ptr<const Kernel> library_;
};

}  // namespace rivulet
