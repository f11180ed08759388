// A kernel that is a function of its context, for ops with short loops that are rarely time-critical.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "engine/program/kernel.h"

namespace rivulet {

template <typename F>
class FunctionKernel final : public Kernel {
 public:
  explicit FunctionKernel(F f) : f_(std::move(f)) {}
  Status Run(const KernelContext& context) const override { return f_(context); }

 private:
  F f_;  // Status(const KernelContext&)
};

template <typename F>
StatusOr<Prepared> MakeFunctionKernel(F f, size_t scratch_bytes = 0) {
  Prepared prepared;
  prepared.kernel = std::make_unique<FunctionKernel<F>>(std::move(f));
  prepared.scratch_bytes = scratch_bytes;
  prepared.implementation = "loop";
  return prepared;
}

}  // namespace rivulet
