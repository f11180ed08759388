// Reductions over axes, and positions of extremes.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "engine/kernels/cpu/reduction/strided_reduce.h"
#include "engine/kernels/cpu/strided/constant_input.h"

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
  using Joining = HalfSquaresReducer;
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
  using Joining = ProdReducer;
  static constexpr bool kPlainSum = false;
  using Carry = Carried<T>;
  static Carry Neutral() { return Carry{1}; }
  static Carry Join(Carry a, Carry b) { return static_cast<Carry>(a * b); }
};
// NaN is kept.
template <typename T>
struct MaxReducer {
  using Joining = MaxReducer;
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
  using Joining = MinReducer;
  using Carry = T;
  static T Neutral() {
    return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  }
  static T Enter(T x) { return x; }
  static T Join(T a, T b) { return b < a || b != b ? b : a; }
  static T Result(T carry, int64_t) { return carry; }
};
struct FloatMaxReducer : MaxReducer<float> {
  using Joining = FloatMaxReducer;
  static constexpr auto Rows = MaxRowsF32;
};
struct FloatMinReducer : MinReducer<float> {
  using Joining = FloatMinReducer;
  static constexpr auto Rows = MinRowsF32;
};
struct AllReducer {
  using Joining = AllReducer;
  using Carry = bool;
  static bool Neutral() { return true; }
  static bool Enter(bool x) { return x; }
  static bool Join(bool a, bool b) { return a & b; }
  static bool Result(bool carry, int64_t) { return carry; }
};
struct AnyReducer {
  using Joining = AnyReducer;
  using Carry = bool;
  static bool Neutral() { return false; }
  static bool Enter(bool x) { return x; }
  static bool Join(bool a, bool b) { return a | b; }
  static bool Result(bool carry, int64_t) { return carry; }
};

// Most reductions of one element return that element, to the bit: a sum that starts from zero would turn -0 into +0,
// whereas TensorFlow passes on unchanged what it reduces over no axes, or axes of size one. So the step without such a
// reduction (removed by SimplifyArithmetic) has the same bits.
template <typename R, typename T>
constexpr bool kIsItsOneElement = !std::is_base_of_v<HalfSquaresReducer<T>, R>;

class CopyingKernel final : public Kernel {
 public:
  explicit CopyingKernel(size_t bytes) : bytes_(bytes) {}
  Status Run(const KernelContext& context) const override {
    if (context.inputs[0] != context.outputs[0] && bytes_ > 0) {
      std::memcpy(context.outputs[0], context.inputs[0], bytes_);
    }
    return absl::OkStatus();
  }

 private:
  size_t bytes_;
};

class ReductionKernel final : public Kernel {
 public:
  ReductionKernel(const ReductionPlan& plan, const ReductionLoops& loops) : plan_(plan), loops_(loops) {}
  Status Run(const KernelContext& context) const override {
    ReduceStrided(plan_, loops_, context.inputs[0], context.outputs[0]);
    return absl::OkStatus();
  }

 private:
  ReductionPlan plan_;
  const ReductionLoops& loops_;
};

StatusOr<Prepared> PrepareLoops(const NodeView& node, const ReductionLoops& loops, bool is_its_one_element) {
  const Shape& input = node.inputs[0].shape;
  RIVULET_ASSIGN_OR_RETURN(const auto axes, ConstantInput(node, 1, "the reduced axes"));
  std::vector<bool> reduced(static_cast<size_t>(input.rank()), false);
  for (int64_t axis : axes) reduced[AxisOf(axis, input.rank())] = true;
  RIVULET_ASSIGN_OR_RETURN(const ReductionPlan plan, PlanReduction(input.dims(), RowMajorStrides(input), reduced));
  Prepared prepared;
  // If nothing is reduced, each element is read just before it is written.
  const bool one = plan.count == 1 && input.elements() == node.outputs[0].shape.elements();
  if (one) prepared.in_place = {{0, 0}};
  if (one && is_its_one_element) {
    prepared.kernel = std::make_unique<CopyingKernel>(static_cast<size_t>(input.elements()) * loops.element);
    prepared.implementation = "copy";
    return prepared;
  }
  prepared.kernel = std::make_unique<ReductionKernel>(plan, loops);
  prepared.implementation = plan.rows ? "rows" : "columns";
  prepared.flops = static_cast<double>(input.elements());
  return prepared;
}

template <typename R, typename T>
StatusOr<Prepared> PrepareReduction(const NodeView& node, const KernelPolicy&) {
  return PrepareLoops(node, kReductionLoops<R, T>, kIsItsOneElement<R, T>);
}

StatusOr<Prepared> PrepareWhole(const NodeView& node, const ReductionLoops& loops) {
  const Shape& input = node.inputs[0].shape;
  RIVULET_ASSIGN_OR_RETURN(
      const ReductionPlan plan,
      PlanReduction(input.dims(), RowMajorStrides(input), std::vector<bool>(static_cast<size_t>(input.rank()), true)));
  Prepared prepared;
  prepared.kernel = std::make_unique<ReductionKernel>(plan, loops);
  prepared.implementation = "rows";
  prepared.flops = 2.0 * static_cast<double>(input.elements());
  return prepared;
}

template <typename T>
StatusOr<Prepared> PrepareL2Loss(const NodeView& node, const KernelPolicy&) {
  return PrepareWhole(node, kReductionLoops<HalfSquaresReducer<T>, T>);
}

template <typename T, bool kLargest>
bool Beyond(T x, T best) {
  return kLargest ? x > best : x < best;
}

// Position of a row's extreme; the first if several are
// equal. NaN never exceeds anything, and nothing exceeds NaN.
template <typename T, bool kLargest>
int64_t ArgInRow(const std::byte* bytes, int64_t size) {
  const T* in = reinterpret_cast<const T*>(bytes);
  if (in[0] != in[0]) return 0;
  T best = in[0];
  int64_t i = 0;
  if constexpr (!kSeldomReduced<T>) {
    // In lanes, which are joined at the end.
    T lanes[kReductionLanes];
    for (T& lane : lanes) lane = in[0];
    for (; i + kReductionLanes <= size; i += kReductionLanes)
      for (int64_t lane = 0; lane < kReductionLanes; ++lane) {
        const T x = in[i + lane];
        lanes[lane] = Beyond<T, kLargest>(x, lanes[lane]) ? x : lanes[lane];
      }
    best = lanes[0];
    for (const T lane : lanes) best = Beyond<T, kLargest>(lane, best) ? lane : best;
  }
  for (; i < size; ++i) best = Beyond<T, kLargest>(in[i], best) ? in[i] : best;
  int64_t at = 0;
  while (!(in[at] == best)) ++at;
  return at;
}

// The same for `width` adjacent columns of [size, inner].
template <typename T, typename Index, bool kLargest>
void ArgInColumns(const std::byte* bytes, int64_t size, int64_t inner, int64_t width, void* positions) {
  const T* in = reinterpret_cast<const T*>(bytes);
  Index* at = static_cast<Index*>(positions);
  T best[kReductionBlock];
  std::copy_n(in, width, best);
  std::fill_n(at, width, Index{0});
  for (int64_t k = 1; k < size; ++k) {
    const T* row = in + k * inner;
    const Index index = static_cast<Index>(k);
    for (int64_t i = 0; i < width; ++i) {
      const bool beyond = Beyond<T, kLargest>(row[i], best[i]);
      best[i] = beyond ? row[i] : best[i];
      at[i] = beyond ? index : at[i];
    }
  }
}

struct ArgLoops {
  size_t element;
  int64_t (*in_row)(const std::byte* in, int64_t size);
  // Positions as int64; `narrow`, if set, writes int32.
  void (*in_columns)(const std::byte* in, int64_t size, int64_t inner, int64_t width, void* positions);
  void (*narrow_in_columns)(const std::byte* in, int64_t size, int64_t inner, int64_t width, void* positions);
};

template <typename T, bool kLargest>
constexpr ArgLoops kArgLoops = {sizeof(T), ArgInRow<T, kLargest>, ArgInColumns<T, int64_t, kLargest>,
                                sizeof(T) == 4 && !kSeldomReduced<T> ? ArgInColumns<T, int32_t, kLargest> : nullptr};

// The index of the extreme along one axis of [outer, size, inner].
class ArgKernel final : public Kernel {
 public:
  ArgKernel(const ArgLoops& loops, bool wide, int64_t outer, int64_t size, int64_t inner)
      : loops_(loops), wide_(wide), outer_(outer), size_(size), inner_(inner) {}
  Status Run(const KernelContext& context) const override {
    const auto element = static_cast<int64_t>(loops_.element);
    const std::byte* in = context.inputs[0];
    int64_t* wide = wide_ ? OutputOf<int64_t>(context, 0) : nullptr;
    int32_t* narrow = wide_ ? nullptr : OutputOf<int32_t>(context, 0);
    for (int64_t o = 0; o < outer_; ++o, in += size_ * inner_ * element) {
      for (int64_t begin = 0; begin < inner_; begin += kReductionBlock) {
        const int64_t width = std::min(kReductionBlock, inner_ - begin), at = o * inner_ + begin;
        const std::byte* from = in + begin * element;
        if (inner_ == 1) {
          const int64_t position = loops_.in_row(from, size_);
          if (wide_)
            wide[at] = position;
          else
            narrow[at] = static_cast<int32_t>(position);
        } else if (wide_) {
          loops_.in_columns(from, size_, inner_, width, wide + at);
        } else if (loops_.narrow_in_columns != nullptr) {
          loops_.narrow_in_columns(from, size_, inner_, width, narrow + at);
        } else {
          int64_t positions[kReductionBlock];
          loops_.in_columns(from, size_, inner_, width, positions);
          for (int64_t i = 0; i < width; ++i) narrow[at + i] = static_cast<int32_t>(positions[i]);
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  const ArgLoops& loops_;
  bool wide_;
  int64_t outer_, size_, inner_;
};

StatusOr<Prepared> PrepareArgLoops(const NodeView& node, const ArgLoops& loops) {
  const Shape& input = node.inputs[0].shape;
  RIVULET_ASSIGN_OR_RETURN(const int64_t given, ConstantScalar(node, 1, "the dimension"));
  const auto axis = static_cast<int>(AxisOf(given, input.rank()));
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= input.dim(i);
  for (int i = axis + 1; i < input.rank(); ++i) inner *= input.dim(i);
  if (input.dim(axis) == 0) return InvalidArgument("axis {} of {} is empty", given, input.ToString());
  Prepared prepared;
  prepared.kernel =
      std::make_unique<ArgKernel>(loops, node.outputs[0].dtype != DType::kInt32, outer, input.dim(axis), inner);
  prepared.implementation = "loop";
  return prepared;
}

template <typename T, bool kLargest>
StatusOr<Prepared> PrepareArg(const NodeView& node, const KernelPolicy&) {
  return PrepareArgLoops(node, kArgLoops<T, kLargest>);
}

template <typename T>
using Signed = typename std::conditional_t<std::is_integral_v<T>, std::make_signed<T>, std::type_identity<T>>::type;

#define RIVULET_REDUCTION_KERNEL(name, reducer, type) \
  RIVULET_KERNEL(name, Device::kCpu, type, (PrepareReduction<reducer<type>, type>));
// Sums and products with wrap-around have the same bits for signed and unsigned types.
#define RIVULET_WRAPPING_KERNEL(name, reducer, type) \
  RIVULET_KERNEL(name, Device::kCpu, type, (PrepareReduction<reducer<Signed<type>>, Signed<type>>));
#define RIVULET_FLOATS(M, name, reducer) M(name, reducer, float) M(name, reducer, double)
#define RIVULET_SIGNED(M, name, reducer) \
  RIVULET_FLOATS(M, name, reducer) M(name, reducer, int32_t) M(name, reducer, int64_t)
#define RIVULET_INTEGERS(M, name, reducer) \
  M(name, reducer, int8_t)                 \
  M(name, reducer, int16_t)                \
  M(name, reducer, int32_t)                \
  M(name, reducer, int64_t)                \
  M(name, reducer, uint8_t) M(name, reducer, uint16_t) M(name, reducer, uint32_t) M(name, reducer, uint64_t)
#define RIVULET_NUMBERS(M, name, reducer) RIVULET_FLOATS(M, name, reducer) RIVULET_INTEGERS(M, name, reducer)
#define RIVULET_BUT_FLOAT(M, name, reducer) M(name, reducer, double) RIVULET_INTEGERS(M, name, reducer)

RIVULET_NUMBERS(RIVULET_WRAPPING_KERNEL, "Sum", SumReducer)
RIVULET_SIGNED(RIVULET_REDUCTION_KERNEL, "Mean", MeanReducer)
RIVULET_FLOATS(RIVULET_REDUCTION_KERNEL, "EuclideanNorm", NormReducer)
RIVULET_KERNEL("Max", Device::kCpu, float, (PrepareReduction<FloatMaxReducer, float>));
RIVULET_KERNEL("Min", Device::kCpu, float, (PrepareReduction<FloatMinReducer, float>));
RIVULET_BUT_FLOAT(RIVULET_REDUCTION_KERNEL, "Max", MaxReducer)
RIVULET_BUT_FLOAT(RIVULET_REDUCTION_KERNEL, "Min", MinReducer)
RIVULET_NUMBERS(RIVULET_WRAPPING_KERNEL, "Prod", ProdReducer)
RIVULET_KERNEL("All", Device::kCpu, void, (PrepareReduction<AllReducer, bool>));
RIVULET_KERNEL("Any", Device::kCpu, void, (PrepareReduction<AnyReducer, bool>));
RIVULET_KERNEL("L2Loss", Device::kCpu, float, PrepareL2Loss<float>);
RIVULET_KERNEL("L2Loss", Device::kCpu, double, PrepareL2Loss<double>);

#define RIVULET_ARG_KERNEL(name, largest, type) RIVULET_KERNEL(name, Device::kCpu, type, (PrepareArg<type, largest>));
RIVULET_NUMBERS(RIVULET_ARG_KERNEL, "ArgMax", true)
RIVULET_NUMBERS(RIVULET_ARG_KERNEL, "ArgMin", false)

}  // namespace

template <typename T>
const ReductionLoops& SumLoops() {
  return kReductionLoops<SumReducer<T>, T>;
}
template const ReductionLoops& SumLoops<float>();
template const ReductionLoops& SumLoops<double>();
template const ReductionLoops& SumLoops<int32_t>();
template const ReductionLoops& SumLoops<int64_t>();

}  // namespace rivulet
