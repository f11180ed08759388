// Rows of a variable: reading, changing, and updating by a sparse gradient.
#include <cmath>

#include "engine/kernels/cpu/movement/copies.h"
#include "engine/kernels/cpu/movement/sparse_rows.h"

namespace rivulet {
namespace {

struct Rows {
  int64_t rows = 0, inner = 1, count = 0;  // of the variable; number of indices
  bool wide = false;

  // `lowest`: 0, or lower if negative indices mean no row.
  Status Check(const IndexView& indices, int64_t lowest = 0) const {
    for (int64_t i = 0; i < count; ++i)
      if (const int64_t row = indices[i]; row < lowest || row >= rows)
        return InvalidArgument("index {} at position {} is outside [0, {}), the variable's rows", row, i, rows);
    return absl::OkStatus();
  }
};

Rows RowsOf(const NodeView& node, size_t indices) {
  const Shape& variable = node.variables[0].shape;
  Rows rows;
  rows.rows = variable.dim(0);
  for (int axis = 1; axis < variable.rank(); ++axis) rows.inner *= variable.dim(axis);
  rows.count = node.inputs[indices].shape.elements();
  rows.wide = node.inputs[indices].dtype == DType::kInt64;
  return rows;
}

Status CheckType(const NodeView& node, DType dtype) {
  for (const TensorSpec& variable : node.variables)
    if (variable.dtype != dtype || variable.shape != node.variables[0].shape || variable.shape.rank() == 0)
      return InvalidArgument("a variable of {}{} cannot be used as rows of {}", Name(variable.dtype),
                             variable.shape.ToString(), Name(dtype));
  return absl::OkStatus();
}

class GatherRowsKernel final : public Kernel {
 public:
  GatherRowsKernel(const Rows& rows, size_t element) : r_(rows), bytes_(static_cast<size_t>(rows.inner) * element) {}
  Status Run(const KernelContext& context) const override {
    const IndexView indices{context.inputs[0], r_.wide};
    RIVULET_RETURN_IF_ERROR(r_.Check(indices));
    std::byte* out = context.outputs[0];
    for (int64_t i = 0; i < r_.count && bytes_ > 0; ++i, out += bytes_)
      std::memcpy(out, context.variables[0] + static_cast<size_t>(indices[i]) * bytes_, bytes_);
    return absl::OkStatus();
  }

 private:
  Rows r_;
  size_t bytes_;
};

StatusOr<Prepared> PrepareResourceGather(const NodeView& node, const KernelPolicy&) {
  RIVULET_RETURN_IF_ERROR(CheckType(node, node.outputs[0].dtype));
  Prepared prepared;
  prepared.kernel = std::make_unique<GatherRowsKernel>(RowsOf(node, 0), SizeOf(node.outputs[0].dtype));
  prepared.implementation = "copy";
  return prepared;
}

template <ScatterOp kOp, typename T>
class ScatterRowsKernel final : public Kernel {
 public:
  explicit ScatterRowsKernel(const Rows& rows) : r_(rows) {}
  Status Run(const KernelContext& context) const override {
    const IndexView indices{context.inputs[0], r_.wide};
    RIVULET_RETURN_IF_ERROR(r_.Check(indices));
    T* variable = As<T>(context.variables[0]);
    const T* updates = InputOf<T>(context, 1);
    for (int64_t i = 0; i < r_.count; ++i)
      Combine<kOp>(variable + indices[i] * r_.inner, updates + i * r_.inner, r_.inner);
    return absl::OkStatus();
  }

 private:
  Rows r_;
};

template <typename Word>
std::unique_ptr<const Kernel> MakeUpdate(const Rows& rows) {
  return std::make_unique<ScatterRowsKernel<ScatterOp::kUpdate, Word>>(rows);
}

StatusOr<Prepared> PrepareUpdate(const NodeView& node, const KernelPolicy&) {
  RIVULET_RETURN_IF_ERROR(CheckType(node, node.inputs[1].dtype));
  Prepared prepared;
  RIVULET_ASSIGN_OR_RETURN(prepared.kernel, ForElementSize(node.inputs[1].dtype, [&](auto word) {
                             return MakeUpdate<decltype(word)>(RowsOf(node, 0));
                           }));
  prepared.implementation = "copy";
  return prepared;
}

template <ScatterOp kOp, typename T>
StatusOr<Prepared> PrepareResourceScatter(const NodeView& node, const KernelPolicy&) {
  RIVULET_RETURN_IF_ERROR(CheckType(node, kDTypeOf<T>));
  Prepared prepared;
  prepared.kernel = std::make_unique<ScatterRowsKernel<kOp, T>>(RowsOf(node, 0));
  prepared.implementation = "loop";
  prepared.flops = static_cast<double>(node.inputs[1].shape.elements());
  return prepared;
}

// Each rule gets one row: of the variable, of the slot (nullptr if there is none), and of the summed gradient.
template <typename T>
struct Descent {
  static constexpr size_t kGradient = 1, kIndices = 2;
  explicit Descent(const NodeView&) {}
  void Row(const KernelContext& c, T* variable, T*, const T* gradient, int64_t count) const {
    DescendRow(variable, *InputOf<T>(c, 0), gradient, count);
  }
};

template <typename T, bool kEpsilon>
struct Adagrad {
  static constexpr size_t kGradient = kEpsilon ? 2 : 1, kIndices = kGradient + 1;
  explicit Adagrad(const NodeView& node) : update_slots(node.attr<bool>("update_slots")) {}
  void Row(const KernelContext& c, T* variable, T* accumulator, const T* gradient, int64_t count) const {
    const T rate = *InputOf<T>(c, 0), epsilon = kEpsilon ? *InputOf<T>(c, 1) : T{0};
    for (int64_t i = 0; i < count; ++i) {
      const T g = gradient[i];
      if (update_slots) accumulator[i] = accumulator[i] + g * g;
      const T root = std::sqrt(accumulator[i]);
      variable[i] = variable[i] - rate * g / (kEpsilon ? root + epsilon : root);
    }
  }
  bool update_slots;
};

template <typename T>
struct Momentum {
  static constexpr size_t kGradient = 1, kIndices = 2;
  explicit Momentum(const NodeView& node) : nesterov(node.attr<bool>("use_nesterov")) {}
  void Row(const KernelContext& c, T* variable, T* accumulator, const T* gradient, int64_t count) const {
    const T rate = *InputOf<T>(c, 0), keep = *InputOf<T>(c, 3);
    for (int64_t i = 0; i < count; ++i) {
      const T moved = keep * accumulator[i] + gradient[i];
      accumulator[i] = moved;
      variable[i] = variable[i] - rate * (nesterov ? gradient[i] + keep * moved : moved);
    }
  }
  bool nesterov;
};

template <typename T, typename Rule>
class SparseApplyKernel final : public Kernel {
 public:
  SparseApplyKernel(const Rows& rows, const Rule& rule) : r_(rows), rule_(rule) {}
  Status Run(const KernelContext& context) const override {
    const IndexView indices{context.inputs[Rule::kIndices], r_.wide};
    RIVULET_RETURN_IF_ERROR(r_.Check(indices, /*lowest=*/INT64_MIN));
    T* variable = As<T>(context.variables[0]);
    T* slot = context.variables.size() > 1 ? As<T>(context.variables[1]) : nullptr;
    ForEachDistinctRow(indices, r_.count, InputOf<T>(context, Rule::kGradient), r_.inner, context.scratch,
                       [&](int64_t row, const T* sum) {
                         const int64_t at = row * r_.inner;
                         rule_.Row(context, variable + at, slot == nullptr ? nullptr : slot + at, sum, r_.inner);
                       });
    return absl::OkStatus();
  }

 private:
  Rows r_;
  Rule rule_;
};

template <typename T, typename Rule>
StatusOr<Prepared> PrepareSparseApply(const NodeView& node, const KernelPolicy&) {
  RIVULET_RETURN_IF_ERROR(CheckType(node, kDTypeOf<T>));
  const Rows rows = RowsOf(node, Rule::kIndices);
  Prepared prepared;
  prepared.kernel = std::make_unique<SparseApplyKernel<T, Rule>>(rows, Rule(node));
  prepared.scratch_bytes = DistinctRowsScratch<T>(rows.count, rows.inner);
  prepared.implementation = "rows";
  prepared.flops = 2.0 * static_cast<double>(node.inputs[Rule::kGradient].shape.elements());
  return prepared;
}

RIVULET_KERNEL_OF_EVERY_SIZE("ResourceGather", PrepareResourceGather);
RIVULET_KERNEL_OF_EVERY_SIZE("ResourceScatterUpdate", PrepareUpdate);
#define RIVULET_ROW_KERNELS(type)                                                                            \
  RIVULET_KERNEL("ResourceScatterAdd", Device::kCpu, type, (PrepareResourceScatter<ScatterOp::kAdd, type>)); \
  RIVULET_KERNEL("ResourceScatterSub", Device::kCpu, type, (PrepareResourceScatter<ScatterOp::kSub, type>)); \
  RIVULET_KERNEL("ResourceScatterMul", Device::kCpu, type, (PrepareResourceScatter<ScatterOp::kMul, type>)); \
  RIVULET_KERNEL("ResourceScatterMax", Device::kCpu, type, (PrepareResourceScatter<ScatterOp::kMax, type>)); \
  RIVULET_KERNEL("ResourceScatterMin", Device::kCpu, type, (PrepareResourceScatter<ScatterOp::kMin, type>))
RIVULET_ROW_KERNELS(float);
RIVULET_ROW_KERNELS(double);
RIVULET_ROW_KERNELS(int32_t);
RIVULET_ROW_KERNELS(int64_t);
#define RIVULET_SPARSE_APPLY_KERNELS(type)                                                                             \
  RIVULET_KERNEL("ResourceSparseApplyGradientDescent", Device::kCpu, type, (PrepareSparseApply<type, Descent<type>>)); \
  RIVULET_KERNEL("ResourceSparseApplyAdagrad", Device::kCpu, type, (PrepareSparseApply<type, Adagrad<type, false>>));  \
  RIVULET_KERNEL("ResourceSparseApplyAdagradV2", Device::kCpu, type, (PrepareSparseApply<type, Adagrad<type, true>>)); \
  RIVULET_KERNEL("ResourceSparseApplyMomentum", Device::kCpu, type, (PrepareSparseApply<type, Momentum<type>>))
RIVULET_SPARSE_APPLY_KERNELS(float);
RIVULET_SPARSE_APPLY_KERNELS(double);

}  // namespace
}  // namespace rivulet
