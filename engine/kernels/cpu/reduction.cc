// Reductions over axes, and the positions of extremes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/kernels/cpu/constant_input.h"
#include "engine/kernels/cpu/strided_reduce.h"

namespace rivulet {
namespace {

template <typename T>
struct MeanReducer : SumReducer<T> {
  static T Result(Carried<T> carry, int64_t count) {
    if constexpr (std::is_integral_v<T>)
      return count == 0 ? T{0} : static_cast<T>(static_cast<T>(carry) / static_cast<T>(count));
    else
      return static_cast<T>(carry / static_cast<double>(count));
  }
};
template <typename T>
struct HalfSquaresReducer : SumReducer<T> {
  static constexpr bool kPlainSum = false;
  static double Enter(T x) { return static_cast<double>(x) * static_cast<double>(x); }
  static T Result(double carry, int64_t) { return static_cast<T>(carry * 0.5); }
};
template <typename T>
struct NormReducer : HalfSquaresReducer<T> {
  static T Result(double carry, int64_t) { return static_cast<T>(std::sqrt(carry)); }
};
template <typename T>
struct ProdReducer : SumReducer<T> {
  static constexpr bool kPlainSum = false;
  using Carry = Carried<T>;
  static Carry Neutral() { return Carry{1}; }
  static Carry Join(Carry a, Carry b) { return static_cast<Carry>(a * b); }
};
// NaN, once met, stays.
template <typename T>
struct MaxReducer {
  using Carry = T;
  static T Neutral() {
    return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                : std::numeric_limits<T>::lowest();
  }
  static T Enter(T x) { return x; }
  static T Join(T a, T b) { return b > a || b != b ? b : a; }
  static T Result(T carry, int64_t) { return carry; }
};
template <typename T>
struct MinReducer {
  using Carry = T;
  static T Neutral() {
    return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  }
  static T Enter(T x) { return x; }
  static T Join(T a, T b) { return b < a || b != b ? b : a; }
  static T Result(T carry, int64_t) { return carry; }
};
struct FloatMaxReducer : MaxReducer<float> {
  static float Row(const float* in, int64_t count) { return MaxRowF32(in, count); }
};
struct FloatMinReducer : MinReducer<float> {
  static float Row(const float* in, int64_t count) { return MinRowF32(in, count); }
};
struct AllReducer {
  using Carry = bool;
  static bool Neutral() { return true; }
  static bool Enter(bool x) { return x; }
  static bool Join(bool a, bool b) { return a & b; }
  static bool Result(bool carry, int64_t) { return carry; }
};
struct AnyReducer {
  using Carry = bool;
  static bool Neutral() { return false; }
  static bool Enter(bool x) { return x; }
  static bool Join(bool a, bool b) { return a | b; }
  static bool Result(bool carry, int64_t) { return carry; }
};

template <typename R, typename T>
class ReductionKernel final : public Kernel {
 public:
  explicit ReductionKernel(ReductionPlan plan) : plan_(plan) {}
  Status Run(const KernelContext& context) const override {
    ReduceStrided<R>(plan_, InputOf<T>(context, 0), OutputOf<T>(context, 0));
    return absl::OkStatus();
  }

 private:
  ReductionPlan plan_;
};

template <typename R, typename T>
StatusOr<Prepared> PrepareReduction(const NodeView& node, const KernelPolicy&) {
  const Shape& input = node.inputs[0].shape;
  RIVULET_ASSIGN_OR_RETURN(const auto axes, ConstantInput(node, 1, "the reduced axes"));
  std::vector<bool> reduced(static_cast<size_t>(input.rank()), false);
  for (int64_t axis : axes) reduced[AxisOf(axis, input.rank())] = true;
  RIVULET_ASSIGN_OR_RETURN(const ReductionPlan plan, PlanReduction(input.dims(), RowMajorStrides(input), reduced));
  Prepared prepared;
  prepared.kernel = std::make_unique<ReductionKernel<R, T>>(plan);
  // Without anything to reduce each element is read just before it is written.
  if (plan.count == 1 && input.elements() == node.outputs[0].shape.elements()) prepared.in_place = {{0, 0}};
  prepared.implementation = plan.rows ? "rows" : "columns";
  prepared.flops = static_cast<double>(input.elements());
  return prepared;
}

template <typename T>
StatusOr<Prepared> PrepareL2Loss(const NodeView& node, const KernelPolicy&) {
  const Shape& input = node.inputs[0].shape;
  RIVULET_ASSIGN_OR_RETURN(
      const ReductionPlan plan,
      PlanReduction(input.dims(), RowMajorStrides(input), std::vector<bool>(static_cast<size_t>(input.rank()), true)));
  Prepared prepared;
  prepared.kernel = std::make_unique<ReductionKernel<HalfSquaresReducer<T>, T>>(plan);
  prepared.implementation = "rows";
  prepared.flops = 2.0 * static_cast<double>(input.elements());
  return prepared;
}

// The index of the extreme along one axis of [outer, size, inner]; the first where several tie.
template <typename T, typename Index, bool kLargest>
class ArgKernel final : public Kernel {
 public:
  ArgKernel(int64_t outer, int64_t size, int64_t inner) : outer_(outer), size_(size), inner_(inner) {}
  Status Run(const KernelContext& context) const override {
    const T* in = InputOf<T>(context, 0);
    Index* out = OutputOf<Index>(context, 0);
    for (int64_t o = 0; o < outer_; ++o, in += size_ * inner_, out += inner_) {
      if (inner_ == 1) {
        *out = static_cast<Index>(InRow(in));
      } else {
        InColumns(in, out);
      }
    }
    return absl::OkStatus();
  }

 private:
  static bool Beyond(T x, T best) { return kLargest ? x > best : x < best; }

  // The extreme first, in lanes, then where it stands: NaN is never beyond anything, and nothing is beyond NaN.
  int64_t InRow(const T* in) const {
    if (in[0] != in[0]) return 0;
    T lanes[kReductionLanes];
    for (T& lane : lanes) lane = in[0];
    int64_t i = 0;
    for (; i + kReductionLanes <= size_; i += kReductionLanes)
      for (int64_t lane = 0; lane < kReductionLanes; ++lane) {
        const T x = in[i + lane];
        lanes[lane] = Beyond(x, lanes[lane]) ? x : lanes[lane];
      }
    T best = lanes[0];
    for (const T lane : lanes) best = Beyond(lane, best) ? lane : best;
    for (; i < size_; ++i) best = Beyond(in[i], best) ? in[i] : best;
    int64_t at = 0;
    while (!(in[at] == best)) ++at;
    return at;
  }

  // Neighbouring columns side by side.
  void InColumns(const T* in, Index* out) const {
    constexpr int64_t kBlock = 128;
    T best[kBlock];
    Index at[kBlock];
    for (int64_t begin = 0; begin < inner_; begin += kBlock) {
      const int64_t width = std::min(kBlock, inner_ - begin);
      std::copy_n(in + begin, width, best);
      std::fill_n(at, width, Index{0});
      for (int64_t k = 1; k < size_; ++k) {
        const T* row = in + k * inner_ + begin;
        const Index index = static_cast<Index>(k);
        for (int64_t i = 0; i < width; ++i) {
          const bool beyond = Beyond(row[i], best[i]);
          best[i] = beyond ? row[i] : best[i];
          at[i] = beyond ? index : at[i];
        }
      }
      std::copy_n(at, width, out + begin);
    }
  }

  int64_t outer_, size_, inner_;
};

template <typename T, bool kLargest>
StatusOr<Prepared> PrepareArg(const NodeView& node, const KernelPolicy&) {
  const Shape& input = node.inputs[0].shape;
  RIVULET_ASSIGN_OR_RETURN(const int64_t given, ConstantScalar(node, 1, "the dimension"));
  const auto axis = static_cast<int>(AxisOf(given, input.rank()));
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= input.dim(i);
  for (int i = axis + 1; i < input.rank(); ++i) inner *= input.dim(i);
  if (input.dim(axis) == 0) return InvalidArgument("axis {} of {} is empty", given, input.ToString());
  Prepared prepared;
  if (node.outputs[0].dtype == DType::kInt32)
    prepared.kernel = std::make_unique<ArgKernel<T, int32_t, kLargest>>(outer, input.dim(axis), inner);
  else
    prepared.kernel = std::make_unique<ArgKernel<T, int64_t, kLargest>>(outer, input.dim(axis), inner);
  prepared.implementation = "loop";
  return prepared;
}

#define RIVULET_REDUCTION_KERNEL(name, reducer, type) \
  RIVULET_KERNEL(name, Device::kCpu, type, (PrepareReduction<reducer<type>, type>));
#define RIVULET_FLOATS(M, name, reducer) M(name, reducer, float) M(name, reducer, double)
#define RIVULET_SIGNED(M, name, reducer) \
  RIVULET_FLOATS(M, name, reducer) M(name, reducer, int32_t) M(name, reducer, int64_t)
#define RIVULET_INTEGERS(M, name, reducer)                                                                  \
  M(name, reducer, int8_t)                                                                                  \
  M(name, reducer, int16_t)                                                                                 \
  M(name, reducer, int32_t)                                                                                 \
  M(name, reducer, int64_t) M(name, reducer, uint8_t) M(name, reducer, uint16_t) M(name, reducer, uint32_t) \
      M(name, reducer, uint64_t)
#define RIVULET_NUMBERS(M, name, reducer) RIVULET_FLOATS(M, name, reducer) RIVULET_INTEGERS(M, name, reducer)
#define RIVULET_BUT_FLOAT(M, name, reducer) M(name, reducer, double) RIVULET_INTEGERS(M, name, reducer)

RIVULET_NUMBERS(RIVULET_REDUCTION_KERNEL, "Sum", SumReducer)
RIVULET_SIGNED(RIVULET_REDUCTION_KERNEL, "Mean", MeanReducer)
RIVULET_FLOATS(RIVULET_REDUCTION_KERNEL, "EuclideanNorm", NormReducer)
RIVULET_KERNEL("Max", Device::kCpu, float, (PrepareReduction<FloatMaxReducer, float>));
RIVULET_KERNEL("Min", Device::kCpu, float, (PrepareReduction<FloatMinReducer, float>));
RIVULET_BUT_FLOAT(RIVULET_REDUCTION_KERNEL, "Max", MaxReducer)
RIVULET_BUT_FLOAT(RIVULET_REDUCTION_KERNEL, "Min", MinReducer)
RIVULET_NUMBERS(RIVULET_REDUCTION_KERNEL, "Prod", ProdReducer)
RIVULET_KERNEL("All", Device::kCpu, void, (PrepareReduction<AllReducer, bool>));
RIVULET_KERNEL("Any", Device::kCpu, void, (PrepareReduction<AnyReducer, bool>));
RIVULET_KERNEL("L2Loss", Device::kCpu, float, PrepareL2Loss<float>);
RIVULET_KERNEL("L2Loss", Device::kCpu, double, PrepareL2Loss<double>);

#define RIVULET_ARG_KERNEL(name, largest, type) RIVULET_KERNEL(name, Device::kCpu, type, (PrepareArg<type, largest>));
RIVULET_NUMBERS(RIVULET_ARG_KERNEL, "ArgMax", true)
RIVULET_NUMBERS(RIVULET_ARG_KERNEL, "ArgMin", false)

}  // namespace
}  // namespace rivulet
