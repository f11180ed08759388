// MatMul and _FusedMatMul in bfloat16. Small batches use the matrix unit by Rivulet's kernels, which read float32
// weights directly; larger ones use oneDNN if that is fast; all others run in float32.
#include "engine/kernels/cpu/product/matmul_bfloat16.h"

#include <algorithm>

#include "engine/kernels/cpu/elementwise/activation_bfloat16.h"
#include "engine/kernels/cpu/product/bias_activation.h"
#include "engine/kernels/cpu/product/choose.h"
#include "engine/kernels/cpu/product/dnnl_product.h"
#include "engine/kernels/cpu/product/matrix_product.h"
#include "engine/kernels/cpu/product/tile_dense.h"
#include "engine/kernels/cpu/vector/has_tiles.h"
#include "engine/program/lane_kernel.h"
#include "engine/program/part_update.h"
#include "engine/program/reads_before_cast.h"

namespace rivulet {
namespace {

// Rows of a weight's gradient per part for an optimiser: each part packs the other factor again.
constexpr int64_t kPartRows16 = 64;

const bfloat16* NarrowAt(const std::byte* data) { return reinterpret_cast<const bfloat16*>(data); }
const float* WideAt(const std::byte* data) { return reinterpret_cast<const float*>(data); }

// For inputs that may be read before their Cast from float32: whether each is. nullopt if one has another type.
std::optional<std::vector<bool>> WideInputs16(std::span<const DType> from, std::initializer_list<size_t> allowed) {
  std::vector<bool> wide(from.size(), false);
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == DType::kInvalid) continue;
    if (from[i] != DType::kFloat32 || std::ranges::find(allowed, i) == allowed.end()) return std::nullopt;
    wide[i] = true;
  }
  return wide;
}

std::string ListedTiles(bool wide) { return wide ? "amx, float32 weights" : "amx"; }

// y = x·w, and an optional epilogue.
class DenseForward16 final : public Kernel, public ReadsBeforeCast {
 public:
  DenseForward16(const TileDense& shape, std::optional<FusedActivation> finish, bool wide_weights, bool wide_bias)
      : shape_(shape), finish_(finish), wide_weights_(wide_weights), wide_bias_(wide_bias) {}
  Status Run(const KernelContext& context) const override {
    const TileOperand bias = finish_ ? TileOperand{context.inputs[2], wide_bias_} : TileOperand();
    TileDenseForward(shape_, NarrowAt(context.inputs[0]), {context.inputs[1], wide_weights_}, bias,
                     finish_.value_or(FusedActivation::kNone), reinterpret_cast<bfloat16*>(context.outputs[0]));
    return absl::OkStatus();
  }
  std::optional<Prepared> ReadingBeforeCast(std::span<const DType> from) const override {
    const auto wide = WideInputs16(from, {1, 2});
    if (!wide) return std::nullopt;
    return Prepare(shape_, finish_, wide_weights_ || (*wide)[1], wide_bias_ || (wide->size() > 2 && (*wide)[2]));
  }
  static Prepared Prepare(const TileDense& shape, std::optional<FusedActivation> finish, bool wide_weights,
                          bool wide_bias) {
    Prepared prepared;
    prepared.kernel = std::make_unique<DenseForward16>(shape, finish, wide_weights, wide_bias);
    prepared.implementation = ListedTiles(wide_weights);
    if (finish)
      prepared.implementation += *finish == FusedActivation::kNone   ? " + bias"
                                 : *finish == FusedActivation::kRelu ? " + bias + relu"
                                                                     : " + bias + relu6";
    prepared.flops = shape.flops();
    return prepared;
  }

 private:
  TileDense shape_;
  std::optional<FusedActivation> finish_;
  bool wide_weights_, wide_bias_;
};

// dx = dy·wᵀ.
class DenseInputGradient16 final : public Kernel, public ReadsBeforeCast {
 public:
  DenseInputGradient16(const TileDense& shape, bool wide) : shape_(shape), wide_(wide) {}
  Status Run(const KernelContext& context) const override {
    TileDenseInputGradient(shape_, NarrowAt(context.inputs[0]), {context.inputs[1], wide_},
                           reinterpret_cast<bfloat16*>(context.outputs[0]));
    return absl::OkStatus();
  }
  std::optional<Prepared> ReadingBeforeCast(std::span<const DType> from) const override {
    if (!WideInputs16(from, {1})) return std::nullopt;
    return Prepare(shape_, true);
  }
  static Prepared Prepare(const TileDense& shape, bool wide) {
    Prepared prepared;
    prepared.kernel = std::make_unique<DenseInputGradient16>(shape, wide);
    prepared.implementation = ListedTiles(wide);
    prepared.flops = shape.flops();
    return prepared;
  }
  const TileDense& shape() const { return shape_; }
  bool wide() const { return wide_; }

 private:
  TileDense shape_;
  bool wide_;
};

// The old weights of an update, from the place where its kernel finds them.
const float* WeightsBefore16(const KernelContext& context, bool elsewhere) {
  return WideAt(elsewhere ? context.inputs.back() : context.variables[0]);
}

// Both gradients of the layer; the weights' gradient is applied at once.
class DenseBackward16 final : public Kernel {
 public:
  explicit DenseBackward16(const TileDense& shape, bool elsewhere = false) : shape_(shape), elsewhere_(elsewhere) {}
  Status Run(const KernelContext& context) const override {
    TileDenseBackward(shape_, NarrowAt(context.inputs[0]), NarrowAt(context.inputs[1]), *WideAt(context.inputs[2]),
                      WeightsBefore16(context, elsewhere_), reinterpret_cast<float*>(context.variables[0]),
                      reinterpret_cast<bfloat16*>(context.outputs[0]));
    return absl::OkStatus();
  }
  std::unique_ptr<const Kernel> FromElsewhere() const override {
    return std::make_unique<DenseBackward16>(shape_, true);
  }

 private:
  TileDense shape_;
  bool elsewhere_;
};

// A weight's gradient, applied at once.
class DenseDescent16 final : public Kernel, public PartKernel {
 public:
  explicit DenseDescent16(const TileDense& shape, bool elsewhere = false) : shape_(shape), elsewhere_(elsewhere) {}
  Status Run(const KernelContext& context) const override {
    TileDenseDescent(shape_, NarrowAt(context.inputs[0]), NarrowAt(context.inputs[1]), *WideAt(context.inputs[2]),
                     WeightsBefore16(context, elsewhere_), 0, shape_.in,
                     reinterpret_cast<float*>(context.variables[0]));
    return absl::OkStatus();
  }
  std::unique_ptr<const Kernel> FromElsewhere() const override {
    return std::make_unique<DenseDescent16>(shape_, true);
  }
  int64_t part_unit() const override { return shape_.out; }
  void RunPart(const KernelContext& context, int64_t first, int64_t count, float* to) const override {
    TileDenseDescent(shape_, NarrowAt(context.inputs[0]), NarrowAt(context.inputs[1]), *WideAt(context.inputs[2]),
                     WideAt(context.inputs.back()) + first, first / shape_.out, count / shape_.out, to);
  }
  std::unique_ptr<const Kernel> WithInputGradient(const Kernel& input_gradient) const override {
    const auto* const dx = dynamic_cast<const DenseInputGradient16*>(&input_gradient);
    if (dx == nullptr || !dx->wide()) return nullptr;
    const TileDense& s = dx->shape();
    if (s.batch != shape_.batch || s.in != shape_.in || s.out != shape_.out) return nullptr;
    return std::make_unique<DenseBackward16>(shape_);
  }

 private:
  TileDense shape_;
  bool elsewhere_;
};

// dw = xᵀ·dy in float32.
class DenseWeightGradient16 final : public Kernel, public PartOutput {
 public:
  explicit DenseWeightGradient16(const TileDense& shape) : shape_(shape) {}
  Status Run(const KernelContext& context) const override {
    TileDenseWeightGradient(shape_, NarrowAt(context.inputs[0]), NarrowAt(context.inputs[1]), 0, shape_.in,
                            reinterpret_cast<float*>(context.outputs[0]));
    return absl::OkStatus();
  }
  std::unique_ptr<const Kernel> FusedGradientDescent() const override {
    return std::make_unique<DenseDescent16>(shape_);
  }
  int64_t part_unit() const override { return kPartRows16 * shape_.out; }
  void MakePart(const KernelContext& context, int64_t first, int64_t count, float* to) const override {
    TileDenseWeightGradient(shape_, NarrowAt(context.inputs[0]), NarrowAt(context.inputs[1]), first / shape_.out,
                            count / shape_.out, to);
  }

 private:
  TileDense shape_;
};

std::optional<Prepared> ByLibrary16(const MatrixProduct& p) {
  return DnnlMatMul(p.m, p.n, p.k, p.transpose_a, p.transpose_b, DType::kBFloat16);
}

// bfloat16 if it is fast; else UNIMPLEMENTED, and the node runs in float32.
Status NotFast16() { return Unimplemented("bfloat16 products of this shape are not fast on this CPU"); }

StatusOr<Prepared> PrepareMatMul16(const NodeView& node, const KernelPolicy& policy) {
  RIVULET_ASSIGN_OR_RETURN(const MatrixProduct p, MatrixProductOf(node));
  switch (ChooseBFloat16Product(p, /*fused=*/false, policy)) {
    case BFloat16Algorithm::kTilesForward:
      return DenseForward16::Prepare({p.m, p.k, p.n}, std::nullopt, false, false);
    case BFloat16Algorithm::kTilesInputGradient:
      return DenseInputGradient16::Prepare({p.m, p.n, p.k}, false);
    case BFloat16Algorithm::kLibrary:
      if (auto fast = ByLibrary16(p)) return *std::move(fast);
      break;
    case BFloat16Algorithm::kFloat32:
      break;
  }
  return NotFast16();
}

StatusOr<Prepared> PrepareFusedMatMul16(const NodeView& node, const KernelPolicy& policy) {
  RIVULET_ASSIGN_OR_RETURN(const MatrixProduct p, MatrixProductOf(node));
  const auto& fused_ops = node.attr<std::vector<std::string>>("fused_ops");
  RIVULET_ASSIGN_OR_RETURN(const FusedActivation activation, ParseFusedOps(fused_ops, node.inputs.size() - 2));
  if (node.inputs[2].shape != Shape({p.n}))
    return InvalidArgument("a bias of {} does not fit a product of {}", node.inputs[2].shape.ToString(),
                           node.outputs[0].shape.ToString());
  const BFloat16Algorithm algorithm = ChooseBFloat16Product(p, /*fused=*/true, policy);
  if (algorithm == BFloat16Algorithm::kTilesForward)
    return DenseForward16::Prepare({p.m, p.k, p.n}, activation, false, false);
  if (algorithm != BFloat16Algorithm::kLibrary) return NotFast16();
  auto fast = ByLibrary16(p);
  if (!fast) return NotFast16();
  using Activation = FusedOps::Activation;
  const Activation then = activation == FusedActivation::kNone   ? Activation::kNone
                          : activation == FusedActivation::kRelu ? Activation::kRelu
                                                                 : Activation::kRelu6;
  return WithBFloat16Epilogue(*std::move(fast), {.bias = true, .activation = then}, p.m, p.n);
}

RIVULET_KERNEL("MatMul", Device::kCpu, bfloat16, PrepareMatMul16);
RIVULET_KERNEL("_FusedMatMul", Device::kCpu, bfloat16, PrepareFusedMatMul16);

}  // namespace

std::optional<Prepared> WideProductOfBFloat16(int64_t rows, int64_t columns, int64_t depth,
                                              std::span<const DType> from) {
  const bool narrow = std::ranges::all_of(from, [](DType dtype) { return dtype == DType::kBFloat16; });
  if (!narrow || !HasTiles() || depth > kMaxTileBatch || rows == 0 || columns == 0 || depth == 0) return std::nullopt;
  const TileDense shape{depth, rows, columns};
  Prepared prepared;
  prepared.kernel = std::make_unique<DenseWeightGradient16>(shape);
  prepared.implementation = "amx";
  prepared.flops = shape.flops();
  return prepared;
}

}  // namespace rivulet
