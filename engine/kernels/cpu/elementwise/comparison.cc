// Comparisons, logic, and selection between two tensors.
#include <cmath>

#include "engine/kernels/cpu/elementwise/comparison_functions.h"
#include "engine/kernels/cpu/strided/element_size.h"
#include "engine/kernels/cpu/strided/elementwise.h"
#include "engine/tensor/float16.h"

namespace rivulet {
namespace {

struct And {
  static bool Apply(bool x, bool y) { return x & y; }
};
struct Or {
  static bool Apply(bool x, bool y) { return x | y; }
};
struct Not {
  static bool Apply(bool x) { return !x; }
};

template <typename T>
class SelectKernel final : public Kernel {
 public:
  explicit SelectKernel(StridedWalk<4> walk) : walk_(walk) {}
  Status Run(const KernelContext& context) const override {
    const bool* condition = InputOf<bool>(context, 0);
    const T *t = InputOf<T>(context, 1), *e = InputOf<T>(context, 2);
    T* out = OutputOf<T>(context, 0);
    walk_.ForEachRow([&](const std::array<int64_t, 4>& at, const std::array<int64_t, 4>& stride, int64_t count) {
      Row(condition + at[1], stride[1], t + at[2], stride[2], e + at[3], stride[3], out + at[0], count);
    });
    return absl::OkStatus();
  }

 private:
  static void Row(const bool* condition, int64_t c_stride, const T* t, int64_t t_stride, const T* e, int64_t e_stride,
                  T* out, int64_t count) {
    if (c_stride == 1 && t_stride == 1 && e_stride == 1) {
#pragma GCC ivdep
      for (int64_t i = 0; i < count; ++i) out[i] = condition[i] ? t[i] : e[i];
    } else {
      for (int64_t i = 0; i < count; ++i) out[i] = condition[i * c_stride] ? t[i * t_stride] : e[i * e_stride];
    }
  }

  StridedWalk<4> walk_;
};

template <typename Word>
std::unique_ptr<const Kernel> MakeSelect(const StridedWalk<4>& walk) {
  return std::make_unique<SelectKernel<Word>>(walk);
}

// By the size of an element; the type does not matter.
StatusOr<Prepared> PrepareSelect(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(
      auto walk,
      MakeBroadcastWalk<3>(node.outputs[0].shape, {node.inputs[0].shape, node.inputs[1].shape, node.inputs[2].shape}));
  Prepared prepared;
  RIVULET_ASSIGN_OR_RETURN(prepared.kernel, ForElementSize(node.outputs[0].dtype, [&](auto word) {
                             return MakeSelect<decltype(word)>(walk);
                           }));
  prepared.in_place = InPlacePairs(node);
  prepared.implementation = "loop";
  return prepared;
}

template <typename T>
class ApproximateEqualKernel final : public Kernel {
 public:
  ApproximateEqualKernel(int64_t count, T tolerance) : count_(count), tolerance_(tolerance) {}
  Status Run(const KernelContext& context) const override {
    const T *x = InputOf<T>(context, 0), *y = InputOf<T>(context, 1);
    bool* out = OutputOf<bool>(context, 0);
    for (int64_t i = 0; i < count_; ++i) out[i] = std::abs(x[i] - y[i]) < tolerance_;
    return absl::OkStatus();
  }

 private:
  int64_t count_;
  T tolerance_;
};

template <typename T>
StatusOr<Prepared> PrepareApproximateEqual(const NodeView& node, const KernelPolicy&) {
  Prepared prepared;
  prepared.kernel = std::make_unique<ApproximateEqualKernel<T>>(node.outputs[0].shape.elements(),
                                                                static_cast<T>(node.attr<float>("tolerance")));
  prepared.implementation = "loop";
  return prepared;
}

// A vector of conditions selects slices.
StatusOr<Prepared> PrepareSelectV1(const NodeView& node, const KernelPolicy& policy) {
  const Shape &condition = node.inputs[0].shape, &output = node.outputs[0].shape;
  if (condition.rank() != 1 || output.rank() <= 1) return PrepareSelect(node, policy);
  std::vector<TensorSpec> inputs(node.inputs.begin(), node.inputs.end());
  std::vector<int64_t> dims(static_cast<size_t>(output.rank()), 1);
  dims[0] = condition.dim(0);
  inputs[0].shape = Shape(std::move(dims));
  NodeView sliced = node;
  sliced.inputs = inputs;
  return PrepareSelect(sliced, policy);
}

#define RIVULET_COMPARISON_KERNEL(name, type) \
  RIVULET_KERNEL(#name, Device::kCpu, type, (PrepareBinary<type, bool, name<type>>));
#define RIVULET_NUMBERS(M, name) M(name, float) M(name, double) M(name, int32_t) M(name, int64_t) M(name, uint8_t)

RIVULET_NUMBERS(RIVULET_COMPARISON_KERNEL, Equal)
RIVULET_NUMBERS(RIVULET_COMPARISON_KERNEL, NotEqual)
RIVULET_NUMBERS(RIVULET_COMPARISON_KERNEL, Less)
RIVULET_NUMBERS(RIVULET_COMPARISON_KERNEL, LessEqual)
RIVULET_NUMBERS(RIVULET_COMPARISON_KERNEL, Greater)
RIVULET_NUMBERS(RIVULET_COMPARISON_KERNEL, GreaterEqual)
RIVULET_COMPARISON_KERNEL(Equal, bool)
RIVULET_COMPARISON_KERNEL(NotEqual, bool)

RIVULET_KERNEL("LogicalAnd", Device::kCpu, void, (PrepareBinary<bool, bool, And>));
RIVULET_KERNEL("LogicalOr", Device::kCpu, void, (PrepareBinary<bool, bool, Or>));
RIVULET_KERNEL("LogicalNot", Device::kCpu, void, (PrepareUnary<bool, bool, Not>));

RIVULET_KERNEL_OF_EVERY_SIZE("Select", PrepareSelectV1);
RIVULET_KERNEL_OF_EVERY_SIZE("SelectV2", PrepareSelect);

RIVULET_KERNEL("ApproximateEqual", Device::kCpu, float, PrepareApproximateEqual<float>);
RIVULET_KERNEL("ApproximateEqual", Device::kCpu, double, PrepareApproximateEqual<double>);

}  // namespace
}  // namespace rivulet
