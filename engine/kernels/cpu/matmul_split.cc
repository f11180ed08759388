#include "engine/kernels/cpu/matmul_split.h"

#include <algorithm>
#include <utility>

#include "engine/kernels/cpu/split_product.h"
#include "engine/kernels/cpu/tile_dense.h"

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
  // Which of the two it is hangs on the factors alone, so that the same factors always have the same bits.
  bool Made(const KernelContext& context, const SplitFinish& finish) const {
    return RunSplitProduct(p_, reinterpret_cast<const float*>(context.inputs[0]),
                           reinterpret_cast<const float*>(context.inputs[1]),
                           reinterpret_cast<float*>(context.outputs[0]), context.scratch, finish);
  }

  SplitProduct p_;
  std::unique_ptr<const Kernel> otherwise_;
};

}  // namespace

bool PaysToSplit(const MatrixProduct& p) {
  // Whole tiles are multiplied, and each factor is taken apart for as many of them as the other one has.
  constexpr int64_t kSide = 32, kProducts = int64_t{1} << 18;
  return std::min({p.m, p.n, p.k}) >= kSide && p.m * p.n * p.k >= kProducts && HasTiles();
}

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
