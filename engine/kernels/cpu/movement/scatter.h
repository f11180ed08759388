// Shared parts of the kernels that gather and scatter slices.
#pragma once

#include <algorithm>
#include <cstring>

#include "engine/kernels/cpu/strided/elementwise.h"

namespace rivulet {

// Indices of type int32 or int64, distinguished at run time: a branch per slice costs less than a kernel per type.
struct IndexView {
  const std::byte* data = nullptr;
  bool wide = false;
  int64_t operator[](int64_t i) const {
    return wide ? reinterpret_cast<const int64_t*>(data)[i] : int64_t{reinterpret_cast<const int32_t*>(data)[i]};
  }
};

enum class ScatterOp { kUpdate, kAdd, kSub, kMul, kMax, kMin };

// to = to OP from, element by element; integers wrap around. kMax and kMin keep NaN.
template <ScatterOp kOp, typename T>
void Combine(T* to, const T* from, int64_t count) {
  using Wrapping =
      typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;
  if constexpr (kOp == ScatterOp::kUpdate) {
    if (count > 0) std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
    return;
  }
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    const T a = to[i], b = from[i];
    if constexpr (kOp == ScatterOp::kAdd)
      to[i] = static_cast<T>(static_cast<Wrapping>(a) + static_cast<Wrapping>(b));
    else if constexpr (kOp == ScatterOp::kSub)
      to[i] = static_cast<T>(static_cast<Wrapping>(a) - static_cast<Wrapping>(b));
    else if constexpr (kOp == ScatterOp::kMul)
      to[i] = static_cast<T>(static_cast<Wrapping>(a) * static_cast<Wrapping>(b));
    else if constexpr (kOp == ScatterOp::kMax)
      to[i] = b > a || b != b ? b : a;
    else
      to[i] = b < a || b != b ? b : a;
  }
}

}  // namespace rivulet
