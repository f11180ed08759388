// MatMul and _FusedMatMul of floats and integers: the kernels, bound by the choice of choose.h. bfloat16:
// matmul_bfloat16.cc.
#include <Eigen/Core>
#include <algorithm>
#include <mutex>

#include "engine/kernels/cpu/product/bias_activation.h"
#include "engine/kernels/cpu/product/choose.h"
#include "engine/kernels/cpu/product/dnnl_product.h"
#include "engine/kernels/cpu/product/matmul_bfloat16.h"
#include "engine/kernels/cpu/product/matmul_split.h"
#include "engine/kernels/cpu/product/matrix_product.h"
#include "engine/kernels/cpu/product/portable_product.h"
#include "engine/kernels/cpu/product/small_matmul.h"
#include "engine/kernels/cpu/vector/has_tiles.h"
#include "engine/program/kernel.h"
#include "engine/program/kernel_alternatives.h"
#include "engine/program/lane_kernel.h"
#include "engine/program/part_update.h"
#include "engine/program/reads_before_cast.h"

namespace rivulet {
namespace {

constexpr int64_t kPartRows = 12;  // rows per part of a result: a register block's

template <typename T>
class LoopMatMul final : public Kernel {
 public:
  explicit LoopMatMul(const MatrixProduct& product) : p_(product) {}
  Status Run(const KernelContext& context) const override {
    const T* a = reinterpret_cast<const T*>(context.inputs[0]);
    const T* b = reinterpret_cast<const T*>(context.inputs[1]);
    T* c = reinterpret_cast<T*>(context.outputs[0]);
    const int64_t a_row = p_.transpose_a ? 1 : p_.k, a_k = p_.transpose_a ? p_.m : 1;
    for (int64_t row = 0; row < p_.m; ++row, c += p_.n) {
      if (p_.transpose_b) {
        for (int64_t column = 0; column < p_.n; ++column) {
          T sum{0};
          for (int64_t k = 0; k < p_.k; ++k) sum = Add(sum, a[row * a_row + k * a_k], b[column * p_.k + k]);
          c[column] = sum;
        }
        continue;
      }
      std::fill_n(c, p_.n, T{0});
      for (int64_t k = 0; k < p_.k; ++k) {
        const T x = a[row * a_row + k * a_k];
        for (int64_t column = 0; column < p_.n; ++column) c[column] = Add(c[column], x, b[k * p_.n + column]);
      }
    }
    return {};
  }

 private:
  // Integers wrap around.
  static T Add(T sum, T x, T y) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(sum) + static_cast<U>(x) * static_cast<U>(y));
    } else {
      return sum + x * y;
    }
  }
  MatrixProduct p_;
};

// A transposed B is first transposed in scratch, so that every element is one sum in order.
template <typename T>
class PortableMatMul final : public Kernel {
 public:
  explicit PortableMatMul(const MatrixProduct& product) : p_(product) {}
  Status Run(const KernelContext& context) const override {
    const T* a = reinterpret_cast<const T*>(context.inputs[0]);
    const T* b = reinterpret_cast<const T*>(context.inputs[1]);
    if (p_.transpose_b) {
      T* turned = reinterpret_cast<T*>(context.scratch);
      TransposeMatrix(b, turned, p_.n, p_.k);
      b = turned;
    }
    PortableProduct product;
    product.m = p_.m;
    product.n = p_.n;
    product.k = p_.k;
    product.a_row = p_.transpose_a ? 1 : p_.k;
    product.a_k = p_.transpose_a ? p_.m : 1;
    product.b_row = product.c_row = p_.n;
    RunPortableProduct(product, a, b, reinterpret_cast<T*>(context.outputs[0]));
    return absl::OkStatus();
  }

 private:
  MatrixProduct p_;
};

template <typename T>
class EigenMatMul final : public Kernel {
 public:
  explicit EigenMatMul(const MatrixProduct& product) : p_(product) {
    // Blocking, and so the order of sums, must not depend on the machine's caches.
    static std::once_flag once;
    std::call_once(once, [] { Eigen::setCpuCacheSizes(32 << 10, 512 << 10, 4 << 20); });
  }
  Status Run(const KernelContext& context) const override {
    using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    using Map = Eigen::Map<const Matrix>;
    const Map a(reinterpret_cast<const T*>(context.inputs[0]), p_.transpose_a ? p_.k : p_.m,
                p_.transpose_a ? p_.m : p_.k);
    const Map b(reinterpret_cast<const T*>(context.inputs[1]), p_.transpose_b ? p_.n : p_.k,
                p_.transpose_b ? p_.k : p_.n);
    Eigen::Map<Matrix> c(reinterpret_cast<T*>(context.outputs[0]), p_.m, p_.n);
    if (p_.k == 0) {
      c.setZero();
    } else if (p_.transpose_a && p_.transpose_b) {
      c.noalias() = a.transpose() * b.transpose();
    } else if (p_.transpose_a) {
      c.noalias() = a.transpose() * b;
    } else if (p_.transpose_b) {
      c.noalias() = a * b.transpose();
    } else {
      c.noalias() = a * b;
    }
    return {};
  }

 private:
  MatrixProduct p_;
};

class SmallMatMul final : public Kernel, public LaneKernel, public PartOutput, public ReadsBeforeCast {
 public:
  // `form`: kPanel, kDot, kDotOfFewColumns or kTransposeThenPanel.
  SmallMatMul(const MatrixProduct& product, ProductAlgorithm form) : p_(product), form_(form) {}
  Status Run(const KernelContext& context) const override {
    const float* a = reinterpret_cast<const float*>(context.inputs[0]);
    const float* b = reinterpret_cast<const float*>(context.inputs[1]);
    float* c = reinterpret_cast<float*>(context.outputs[0]);
    if (form_ == ProductAlgorithm::kDot) {
      DotMatMul(a, b, c, p_.m, p_.n, p_.k);
      return {};
    }
    if (form_ == ProductAlgorithm::kDotOfFewColumns) {
      DotMatMulOfFewColumns(a, b, c, p_.m, p_.n, p_.k);
      return {};
    }
    if (form_ == ProductAlgorithm::kTransposeThenPanel) {
      float* transposed = reinterpret_cast<float*>(context.scratch);
      TransposeMatrix(b, transposed, p_.n, p_.k);
      b = transposed;
    }
    PanelMatMul(a, p_.transpose_a ? 1 : p_.k, p_.transpose_a ? p_.m : 1, b, c, p_.m, p_.n, p_.k);
    return {};
  }
  std::unique_ptr<const Kernel> FusedGradientDescent() const override;
  // Each row is summed in the same order for any number of rows. A batch of several lanes might choose another kernel
  // by its shape, so this kernel itself is widened.
  std::unique_ptr<const Kernel> ForLanes(int64_t lanes, const std::vector<bool>& differs) const override {
    if (p_.transpose_a || !differs[0] || differs[1]) return nullptr;
    MatrixProduct wide = p_;
    wide.m *= lanes;
    return std::make_unique<SmallMatMul>(wide, form_);
  }
  // Rows whose products read all of B: only if that is short.
  int64_t part_unit() const override {
    return form_ == ProductAlgorithm::kPanel && p_.k <= kSmallDepth ? kPartRows * p_.n : 0;
  }
  void MakePart(const KernelContext& context, int64_t first, int64_t count, float* to) const override {
    const int64_t a_row = p_.transpose_a ? 1 : p_.k, a_k = p_.transpose_a ? p_.m : 1;
    PanelMatMul(reinterpret_cast<const float*>(context.inputs[0]) + first / p_.n * a_row, a_row, a_k,
                reinterpret_cast<const float*>(context.inputs[1]), to, count / p_.n, p_.n, p_.k);
  }
  // The weights' gradient of a layer that computes in bfloat16: its factors were widened only for this product.
  std::optional<Prepared> ReadingBeforeCast(std::span<const DType> from) const override {
    if (form_ != ProductAlgorithm::kPanel || !p_.transpose_a) return std::nullopt;
    return WideProductOfBFloat16(p_.m, p_.n, p_.k, from);
  }
  ProductAlgorithm form() const { return form_; }
  const MatrixProduct& product() const { return p_; }

 private:
  MatrixProduct p_;
  ProductAlgorithm form_;
};

constexpr int64_t kFarWeights = int64_t{1} << 16;  // elements: 256 KiB, a large part of a second-level cache

// The old weights of an update, from the place where its kernel finds them.
const float* WeightsBefore(const KernelContext& context, bool elsewhere) {
  return reinterpret_cast<const float*>(elsewhere ? context.inputs.back() : context.variables[0]);
}

// Both gradients of a dense layer; the weights' gradient is applied at once.
class DenseBackward final : public Kernel {
 public:
  explicit DenseBackward(const MatrixProduct& weights, bool elsewhere = false) : p_(weights), elsewhere_(elsewhere) {}
  Status Run(const KernelContext& context) const override {
    DenseBackwardDescent(
        reinterpret_cast<const float*>(context.inputs[0]), reinterpret_cast<const float*>(context.inputs[1]),
        *reinterpret_cast<const float*>(context.inputs[2]), WeightsBefore(context, elsewhere_),
        reinterpret_cast<float*>(context.variables[0]), reinterpret_cast<float*>(context.outputs[0]), p_.k, p_.m, p_.n);
    return absl::OkStatus();
  }
  std::unique_ptr<const Kernel> FromElsewhere() const override { return std::make_unique<DenseBackward>(p_, true); }

 private:
  MatrixProduct p_;
  bool elsewhere_;
};

// A weight's gradient, applied at once.
class DescendingMatMul final : public Kernel, public PartKernel {
 public:
  explicit DescendingMatMul(const MatrixProduct& product, bool elsewhere = false)
      : p_(product), elsewhere_(elsewhere) {}
  Status Run(const KernelContext& context) const override {
    const float* a = reinterpret_cast<const float*>(context.inputs[0]);
    const float* b = reinterpret_cast<const float*>(context.inputs[1]);
    const float rate = *reinterpret_cast<const float*>(context.inputs[2]);
    PanelMatMulDescent(a, p_.transpose_a ? 1 : p_.k, p_.transpose_a ? p_.m : 1, b, rate,
                       WeightsBefore(context, elsewhere_), reinterpret_cast<float*>(context.variables[0]), p_.m, p_.n,
                       p_.k);
    return absl::OkStatus();
  }
  std::unique_ptr<const Kernel> FromElsewhere() const override { return std::make_unique<DescendingMatMul>(p_, true); }
  int64_t part_unit() const override { return p_.n; }
  void RunPart(const KernelContext& context, int64_t first, int64_t count, float* to) const override {
    const int64_t row = first / p_.n, a_row = p_.transpose_a ? 1 : p_.k;
    const float* a = reinterpret_cast<const float*>(context.inputs[0]) + row * a_row;
    const float* b = reinterpret_cast<const float*>(context.inputs[1]);
    const float rate = *reinterpret_cast<const float*>(context.inputs[2]);
    const float* from = reinterpret_cast<const float*>(context.inputs.back()) + first;
    PanelMatMulDescent(a, a_row, p_.transpose_a ? p_.m : 1, b, rate, from, to, count / p_.n, p_.n, p_.k);
  }
  std::unique_ptr<const Kernel> WithInputGradient(const Kernel& input_gradient) const override {
    const auto* dots = dynamic_cast<const SmallMatMul*>(&input_gradient);
    if (dots == nullptr || dots->form() != ProductAlgorithm::kDot || !p_.transpose_a) return nullptr;
    const MatrixProduct& dx = dots->product();
    if (dx.m != p_.k || dx.n != p_.m || dx.k != p_.n) return nullptr;
    // If weights stay in the cache between the two passes, merging them gains nothing.
    if (p_.m * p_.n < kFarWeights) return nullptr;
    return std::make_unique<DenseBackward>(p_);
  }

 private:
  MatrixProduct p_;
  bool elsewhere_;
};

std::unique_ptr<const Kernel> SmallMatMul::FusedGradientDescent() const {
  // One panel of depth: the product is complete when the block ends.
  if (form_ != ProductAlgorithm::kPanel || p_.k > kSmallDepth) return nullptr;
  return std::make_unique<DescendingMatMul>(p_);
}

Prepared SmallProduct(const MatrixProduct& p, ProductAlgorithm form) {
  Prepared prepared;
  prepared.flops = p.flops();
  prepared.kernel = std::make_unique<SmallMatMul>(p, form);
  prepared.implementation = "hwy";
  if (form == ProductAlgorithm::kTransposeThenPanel)
    prepared.scratch_bytes = static_cast<size_t>(p.n * p.k) * sizeof(float);
  return prepared;
}

template <typename T>
Prepared EigenProduct(const MatrixProduct& p) {
  Prepared prepared;
  prepared.flops = p.flops();
  prepared.kernel = std::make_unique<EigenMatMul<T>>(p);
  prepared.implementation = "eigen";
  return prepared;
}

template <typename T>
Prepared LoopProduct(const MatrixProduct& p) {
  Prepared prepared;
  prepared.flops = p.flops();
  prepared.kernel = std::make_unique<LoopMatMul<T>>(p);
  prepared.implementation = "loops";
  return prepared;
}

template <typename T>
Prepared PortableProductOf(const MatrixProduct& p) {
  Prepared prepared;
  prepared.flops = p.flops();
  prepared.kernel = std::make_unique<PortableMatMul<T>>(p);
  prepared.implementation = "portable";
  if (p.transpose_b) prepared.scratch_bytes = static_cast<size_t>(p.n * p.k) * sizeof(T);
  return prepared;
}

template <typename T>
StatusOr<Prepared> PrepareMatMul(const NodeView& node, const KernelPolicy& policy) {
  RIVULET_ASSIGN_OR_RETURN(const MatrixProduct p, MatrixProductOf(node));
  if constexpr (std::is_integral_v<T>) {
    return LoopProduct<T>(p);
  } else {
    const ProductAlgorithm algorithm = ChooseProduct<T>(p, policy);
    if (algorithm == ProductAlgorithm::kPortable) return PortableProductOf<T>(p);
    if constexpr (std::is_same_v<T, float>) {
      if (IsSmall(algorithm)) return SmallProduct(p, algorithm);
      if (auto fast = DnnlMatMul(p.m, p.n, p.k, p.transpose_a, p.transpose_b))
        return algorithm == ProductAlgorithm::kSplit ? SplitMatMul(p, *std::move(fast)) : *std::move(fast);
    }
    return EigenProduct<T>(p);
  }
}

// A product whose result is finished while it is in the cache.
template <typename T>
class FinishedMatMul final : public Kernel, public LaneKernel {
 public:
  FinishedMatMul(std::unique_ptr<const Kernel> product, FusedActivation activation, int64_t rows, int64_t columns)
      : product_(std::move(product)), activation_(activation), rows_(rows), columns_(columns) {
    const auto* const parts = dynamic_cast<const PartOutput*>(product_.get());
    if (parts != nullptr && parts->part_unit() > 0) parts_ = parts;
    if constexpr (std::is_same_v<T, float>) finishing_ = dynamic_cast<const FinishingProduct*>(product_.get());
  }
  Status Run(const KernelContext& context) const override {
    if (parts_ != nullptr) {
      FinishByParts(context);
      return absl::OkStatus();
    }
    if constexpr (std::is_same_v<T, float>) {
      if (finishing_ != nullptr)
        return finishing_->RunFinished(context, reinterpret_cast<const float*>(context.inputs[2]), activation_);
    }
    RIVULET_RETURN_IF_ERROR(product_->Run(context));
    AddBiasAndActivate(reinterpret_cast<T*>(context.outputs[0]), reinterpret_cast<const T*>(context.inputs[2]),
                       activation_, rows_, columns_);
    return absl::OkStatus();
  }
  std::unique_ptr<KernelState> NewState() const override { return product_->NewState(); }
  std::unique_ptr<const Kernel> ForLanes(int64_t lanes, const std::vector<bool>& differs) const override {
    const auto* const product = dynamic_cast<const LaneKernel*>(product_.get());
    if (product == nullptr || differs[2]) return nullptr;
    std::unique_ptr<const Kernel> wide = product->ForLanes(lanes, differs);
    if (wide == nullptr) return nullptr;
    return std::make_unique<FinishedMatMul>(std::move(wide), activation_, rows_ * lanes, columns_);
  }

 private:
  // Some rows at a time, while they are in the nearest cache.
  void FinishByParts(const KernelContext& context) const {
    if constexpr (std::is_same_v<T, float>) {
      float* const output = reinterpret_cast<float*>(context.outputs[0]);
      const int64_t unit = parts_->part_unit(), elements = rows_ * columns_;
      for (int64_t first = 0; first < elements; first += unit) {
        const int64_t count = std::min(unit, elements - first);
        parts_->MakePart(context, first, count, output + first);
        AddBiasAndActivate(output + first, reinterpret_cast<const float*>(context.inputs[2]), activation_,
                           count / columns_, columns_);
      }
    }
  }

  std::unique_ptr<const Kernel> product_;        // uses only the first two inputs
  const PartOutput* parts_ = nullptr;            // the product, if it computes its rows by parts
  const FinishingProduct* finishing_ = nullptr;  // the product, if it finishes them itself
  FusedActivation activation_;
  int64_t rows_, columns_;
};

template <typename T>
StatusOr<Prepared> PrepareFusedMatMul(const NodeView& node, const KernelPolicy& policy) {
  const auto& fused_ops = node.attr<std::vector<std::string>>("fused_ops");
  RIVULET_ASSIGN_OR_RETURN(const FusedActivation activation, ParseFusedOps(fused_ops, node.inputs.size() - 2));
  RIVULET_ASSIGN_OR_RETURN(Prepared prepared, PrepareMatMul<T>(node, policy));
  const Shape& product = node.outputs[0].shape;
  if (node.inputs[2].shape != Shape({product.dim(1)})) {
    return InvalidArgument("a bias of {} does not fit a product of {}", node.inputs[2].shape.ToString(),
                           product.ToString());
  }
  prepared.kernel =
      std::make_unique<FinishedMatMul<T>>(std::move(prepared.kernel), activation, product.dim(0), product.dim(1));
  prepared.implementation += activation == FusedActivation::kNone   ? " + bias"
                             : activation == FusedActivation::kRelu ? " + bias + relu"
                                                                    : " + bias + relu6";
  return prepared;
}

// For measurements beside the chosen kernel.
template <typename T>
StatusOr<Prepared> PrepareEigen(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const MatrixProduct p, MatrixProductOf(node));
  return EigenProduct<T>(p);
}

template <typename T>
StatusOr<Prepared> PrepareLoops(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const MatrixProduct p, MatrixProductOf(node));
  return LoopProduct<T>(p);
}

StatusOr<Prepared> PrepareDnnl(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const MatrixProduct p, MatrixProductOf(node));
  if (auto fast = DnnlMatMul(p.m, p.n, p.k, p.transpose_a, p.transpose_b)) return *std::move(fast);
  return Unimplemented("oneDNN has no fast product of this shape on this CPU");
}

StatusOr<Prepared> PrepareSplit(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const MatrixProduct p, MatrixProductOf(node));
  if (!HasTiles()) return Unimplemented("this CPU has no matrix unit for bfloat16");
  return SplitMatMul(p, EigenProduct<float>(p));
}

StatusOr<Prepared> PrepareOwn(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const MatrixProduct p, MatrixProductOf(node));
  if (p.transpose_a && p.transpose_b) return Unimplemented("our products turn one factor at most");
  return SmallProduct(p, SmallAlgorithm(p));
}

RIVULET_KERNEL_ALTERNATIVE("MatMul", float, "dnnl", PrepareDnnl);
RIVULET_KERNEL_ALTERNATIVE("MatMul", float, "eigen", PrepareEigen<float>);
RIVULET_KERNEL_ALTERNATIVE("MatMul", float, "own", PrepareOwn);
RIVULET_KERNEL_ALTERNATIVE("MatMul", float, "reference", PrepareLoops<float>);
RIVULET_KERNEL_ALTERNATIVE("MatMul", float, "split", PrepareSplit);
RIVULET_KERNEL_ALTERNATIVE("MatMul", double, "reference", PrepareLoops<double>);

RIVULET_KERNEL("_FusedMatMul", Device::kCpu, float, PrepareFusedMatMul<float>);
RIVULET_KERNEL("_FusedMatMul", Device::kCpu, double, PrepareFusedMatMul<double>);
RIVULET_KERNEL("MatMul", Device::kCpu, float, PrepareMatMul<float>);
RIVULET_KERNEL("MatMul", Device::kCpu, double, PrepareMatMul<double>);
RIVULET_KERNEL("MatMul", Device::kCpu, int32_t, PrepareMatMul<int32_t>);
RIVULET_KERNEL("MatMul", Device::kCpu, int64_t, PrepareMatMul<int64_t>);

}  // namespace
}  // namespace rivulet
