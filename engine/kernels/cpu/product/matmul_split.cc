#include "engine/kernels/cpu/product/matmul_split.h"

#include <algorithm>
#include <utility>

#include "engine/kernels/cpu/product/split_product.h"

namespace rivulet {
namespace {

class SplitKernel final : public Kernel, public FinishingProduct {
 public:
  SplitKernel(const MatrixProduct& p, std::unique_ptr<const Kernel> otherwise) : otherwise_(std::move(otherwise)) {
    p_.m = p.m;
    p_.n = p.n;
    p_.k = p.k;
    p_.a_row = p.transpose_a ? 1 : p.k;
    p_.a_k = p.transpose_a ? p.m : 1;
    p_.b_k = p.transpose_b ? 1 : p.n;
    p_.b_column = p.transpose_b ? p.k : 1;
  }
  Status Run(const KernelContext& context) const override {
    return Made(context, {}) ? absl::OkStatus() : otherwise_->Run(context);
  }
  Status RunFinished(const KernelContext& context, const float* bias, FusedActivation activation) const override {
    if (Made(context, {bias, activation})) return absl::OkStatus();
    RIVULET_RETURN_IF_ERROR(otherwise_->Run(context));
    AddBiasAndActivate(reinterpret_cast<float*>(context.outputs[0]), bias, activation, p_.m, p_.n);
    return absl::OkStatus();
  }
  std::unique_ptr<KernelState> NewState() const override { return otherwise_->NewState(); }
  const SplitProduct& shape() const { return p_; }

 private:
  // The choice between the two depends only on the factors, so that equal factors always have the same bits.
  bool Made(const KernelContext& context, const SplitFinish& finish) const {
    return RunSplitProduct(p_, reinterpret_cast<const float*>(context.inputs[0]),
                           reinterpret_cast<const float*>(context.inputs[1]),
                           reinterpret_cast<float*>(context.outputs[0]), context.scratch, finish);
  }

  SplitProduct p_;
  std::unique_ptr<const Kernel> otherwise_;
};

}  // namespace

Prepared SplitMatMul(const MatrixProduct& product, Prepared otherwise) {
  auto kernel = std::make_unique<SplitKernel>(product, std::move(otherwise.kernel));
  Prepared prepared;
  prepared.scratch_bytes = std::max(otherwise.scratch_bytes, SplitProductScratch(kernel->shape()));
  prepared.kernel = std::move(kernel);
  prepared.implementation = "amx, three parts";
  prepared.flops = product.flops();
  return prepared;
}

}  // namespace rivulet
