// Reductions of strided tensors. The order in which elements are combined depends on the shape alone. Rows use 16
// virtual lanes that are joined as a tree; columns are combined from the first row to the last. Sums and products of
// floats are kept in double.
#pragma once

#include <algorithm>
#include <concepts>
#include <limits>
#include <vector>

#include "engine/kernels/cpu/reduction/reduce_f32.h"
#include "engine/kernels/cpu/strided/elementwise.h"

namespace rivulet {

template <typename T>
using Carried =
    typename std::conditional_t<std::is_floating_point_v<T>, std::type_identity<double>, std::make_unsigned<T>>::type;

// A reducer: its carry type, neutral element, adding an element, joining two partial results, the final result.
// `Joining` is the reducer whose loops it shares: itself, or one that differs only in the final result.
template <typename T>
struct SumReducer {
  using Joining = SumReducer;
  using Carry = Carried<T>;
  static Carry Neutral() { return Carry{0}; }
  static Carry Enter(T x) { return static_cast<Carry>(x); }
  static Carry Join(Carry a, Carry b) { return static_cast<Carry>(a + b); }
  static T Result(Carry carry, int64_t) { return static_cast<T>(carry); }
  static constexpr bool kPlainSum = true;  // a sum of unmodified elements; derived reducers that modify them hide this
};

constexpr int64_t kReductionLanes = 16;
constexpr int64_t kReductionBlock = 128;  // columns per block

struct ReductionPlan {
  bool rows = false;       // each result separately; otherwise adjacent results in parallel
  StridedWalk<2> kept;     // 0: output, without gaps; 1: input
  StridedWalk<1> reduced;  // input
  int64_t count = 1;       // elements per result
};

// `dims` and `strides` of the input, per axis.
StatusOr<ReductionPlan> PlanReduction(std::span<const int64_t> dims, std::span<const int64_t> strides,
                                      const std::vector<bool>& is_reduced);

// A reducer's loops for one type; the walks around them are shared by all types. A carry has at most 8 bytes, an input
// stride counts elements.
struct ReductionLoops {
  size_t element;  // bytes
  void (*neutral)(void* carries, int64_t count);
  // Adds a row to one carry.
  void (*row)(const std::byte* in, int64_t stride, int64_t count, void* carry);
  // Adds `rows` rows of `width` adjacent elements to as many carries.
  void (*columns)(const std::byte* in, int64_t stride, int64_t rows, void* carries, int64_t width);
  // `reduced`: number of elements per result.
  void (*results)(const void* carries, int64_t reduced, std::byte* out, int64_t count);
  // The most common reduction in one call: `results` rows, each from its first element to its result.
  void (*each_row)(const std::byte* in, int64_t in_stride, int64_t stride, int64_t count, int64_t reduced,
                   std::byte* out, int64_t out_stride, int64_t results);
};

void ReduceStrided(const ReductionPlan& plan, const ReductionLoops& loops, const std::byte* in, std::byte* out);

// Integers may be joined in any order; rarely reduced types do without lanes.
template <typename T>
constexpr bool kSeldomReduced =
    std::is_integral_v<T> && !std::is_same_v<T, bool> && (sizeof(T) < 4 || std::is_unsigned_v<T>);

template <typename R, typename T>
concept SumsFloats = std::is_same_v<T, float> && requires {
  requires R::kPlainSum;
};

// A reducer may have `static void Rows(const T* in, int64_t stride, int64_t count, int64_t rows, Carry* carries)`:
// whole rows at once, with the bits of the lanes.
template <typename R, typename T>
concept HasRows = requires(const T* in, int64_t count, typename R::Carry* carries) {
  R::Rows(in, count, count, count, carries);
};

template <typename R, typename T>
constexpr bool kReducesRows = SumsFloats<R, T> || HasRows<R, T>;

template <typename R, typename T>
void ReduceRows(const T* in, int64_t stride, int64_t count, int64_t rows, typename R::Carry* carries) {
  if constexpr (SumsFloats<R, T>)
    SumRowsF32(in, stride, count, rows, carries);
  else
    R::Rows(in, stride, count, rows, carries);
}

template <typename R, typename T>
struct JoiningLoops {
  using Carry = typename R::Carry;
  static_assert(sizeof(Carry) <= 8);

  static Carry InLanes(const T* in, int64_t stride, int64_t count) {
    Carry lanes[kReductionLanes];
    for (Carry& lane : lanes) lane = R::Neutral();
    int64_t i = 0;
    if (stride == 1) {
      for (; i + kReductionLanes <= count; i += kReductionLanes)
        for (int64_t lane = 0; lane < kReductionLanes; ++lane)
          lanes[lane] = R::Join(lanes[lane], R::Enter(in[i + lane]));
    } else {
      for (; i + kReductionLanes <= count; i += kReductionLanes)
        for (int64_t lane = 0; lane < kReductionLanes; ++lane)
          lanes[lane] = R::Join(lanes[lane], R::Enter(in[(i + lane) * stride]));
    }
    for (int64_t lane = 0; i < count; ++i, ++lane) lanes[lane] = R::Join(lanes[lane], R::Enter(in[i * stride]));
    for (int64_t width = kReductionLanes / 2; width > 0; width /= 2)
      for (int64_t lane = 0; lane < width; ++lane) lanes[lane] = R::Join(lanes[lane], lanes[lane + width]);
    return lanes[0];
  }

  __attribute__((noinline)) static Carry OfRow(const T* in, int64_t stride, int64_t count) {
    if constexpr (kSeldomReduced<T>) {
      Carry carry = R::Neutral();
      if (stride == 1)
        for (int64_t i = 0; i < count; ++i) carry = R::Join(carry, R::Enter(in[i]));
      else
        for (int64_t i = 0; i < count; ++i) carry = R::Join(carry, R::Enter(in[i * stride]));
      return carry;
    }
    if constexpr (kReducesRows<R, T>) {
      if (stride == 1) {
        Carry carry;
        ReduceRows<R, T>(in, 0, count, 1, &carry);
        return carry;
      }
    }
    return InLanes(in, stride, count);
  }

  static void Neutral(void* carries, int64_t count) { std::fill_n(static_cast<Carry*>(carries), count, R::Neutral()); }
  static void Row(const std::byte* in, int64_t stride, int64_t count, void* carry) {
    Carry& joined = *static_cast<Carry*>(carry);
    joined = R::Join(joined, OfRow(reinterpret_cast<const T*>(in), stride, count));
  }
  static void Columns(const std::byte* in, int64_t stride, int64_t rows, void* carries, int64_t width) {
    Carry* carry = static_cast<Carry*>(carries);
    const T* row = reinterpret_cast<const T*>(in);
    if constexpr (SumsFloats<R, T>) {
      AddRowsF32(row, stride, rows, carry, width);
    } else {
      for (int64_t r = 0; r < rows; ++r, row += stride)
        for (int64_t i = 0; i < width; ++i) carry[i] = R::Join(carry[i], R::Enter(row[i]));
    }
  }
};

template <typename R, typename T>
struct ResultLoops {
  using Carry = typename R::Carry;

  static void Results(const void* carries, int64_t reduced, std::byte* out, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      reinterpret_cast<T*>(out)[i] = R::Result(static_cast<const Carry*>(carries)[i], reduced);
  }
  static void EachRow(const std::byte* in, int64_t in_stride, int64_t stride, int64_t count, int64_t reduced,
                      std::byte* out, int64_t out_stride, int64_t results) {
    using Joining = typename R::Joining;
    const T* row = reinterpret_cast<const T*>(in);
    T* to = reinterpret_cast<T*>(out);
    if constexpr (kReducesRows<Joining, T>) {
      if (stride == 1) {  // avoids a call per short row
        constexpr int64_t kRows = 64;
        Carry carries[kRows];
        for (int64_t begin = 0; begin < results; begin += kRows) {
          const int64_t rows = std::min(kRows, results - begin);
          ReduceRows<Joining, T>(row + begin * in_stride, in_stride, count, rows, carries);
          for (int64_t i = 0; i < rows; ++i, to += out_stride)
            *to = R::Result(R::Join(R::Neutral(), carries[i]), reduced);
        }
        return;
      }
    }
    for (int64_t i = 0; i < results; ++i, row += in_stride, to += out_stride)
      *to = R::Result(R::Join(R::Neutral(), JoiningLoops<Joining, T>::OfRow(row, stride, count)), reduced);
  }
};

template <typename R, typename T>
constexpr ReductionLoops kReductionLoops = {
    sizeof(T),
    JoiningLoops<typename R::Joining, T>::Neutral,
    JoiningLoops<typename R::Joining, T>::Row,
    JoiningLoops<typename R::Joining, T>::Columns,
    ResultLoops<R, T>::Results,
    ResultLoops<R, T>::EachRow,
};

// Sums of float, double, int32_t and int64_t, defined in reduction.cc.
template <typename T>
const ReductionLoops& SumLoops();

}  // namespace rivulet
