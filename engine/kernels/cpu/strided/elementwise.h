// Kernels that compute each element of their output from the elements at the same position of their inputs. Inputs are
// broadcast as in NumPy. A function is a struct with `static Out Apply(In, …)`.
#pragma once

#include <memory>
#include <type_traits>

#include "engine/kernels/cpu/strided/strided.h"
#include "engine/program/kernel.h"

// The build's -O2 vectorises very little; these loops are written for it.
#pragma GCC optimize("O3")

namespace rivulet {

template <typename T>
T* As(std::byte* data) {
  return reinterpret_cast<T*>(data);
}
template <typename T>
const T* InputOf(const KernelContext& context, size_t i) {
  return reinterpret_cast<const T*>(context.inputs[i]);
}
template <typename T>
T* OutputOf(const KernelContext& context, size_t i) {
  return reinterpret_cast<T*>(context.outputs[i]);
}

// (input, 0) for each input with the output's layout, so that the output may reuse its memory.
inline std::vector<std::pair<int, int>> InPlacePairs(const NodeView& node) {
  std::vector<std::pair<int, int>> pairs;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (node.inputs[i] == node.outputs[0]) pairs.emplace_back(static_cast<int>(i), 0);
  return pairs;
}

// A function's loops for one type. The kernels that call them are shared by all functions and types, so that a further
// function only adds its loops to compile time.
using UnaryLoop = void (*)(const std::byte* in, std::byte* out, int64_t count);
// `rows` rows of `count` elements each. Strides count elements of a row, steps the bytes from one row to the next. A
// loop takes many rows at a time, because for a bias over rows of a hundred elements a call would cost as much as a
// row.
struct BinaryRows {
  const std::byte *a, *b;
  std::byte* out;
  int64_t a_stride, b_stride;
  int64_t a_step, b_step, out_step;
  int64_t rows, count;
};
using BinaryLoop = void (*)(const BinaryRows& rows);
// Checks the values of the second input, before anything is written.
using SecondCheck = Status (*)(const std::byte* b, int64_t count);

StatusOr<Prepared> PrepareUnaryLoop(const NodeView& node, UnaryLoop loop);
StatusOr<Prepared> PrepareBinaryLoop(const NodeView& node, BinaryLoop loop, SecondCheck check);

template <typename In, typename Out, typename F>
void UnaryRow(const std::byte* in_bytes, std::byte* out_bytes, int64_t count) {
  const In* in = reinterpret_cast<const In*>(in_bytes);
  Out* out = reinterpret_cast<Out*>(out_bytes);
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) out[i] = F::Apply(in[i]);
}

template <typename In, typename Out, typename F>
StatusOr<Prepared> PrepareUnary(const NodeView& node, const KernelPolicy&) {
  return PrepareUnaryLoop(node, UnaryRow<In, Out, F>);
}

// F may have `static Status Check(std::span<const In> b)`, which is called before anything is written.
template <typename F, typename In>
concept ChecksSecond = requires(std::span<const In> b) {
  { F::Check(b) } -> std::same_as<Status>;
};

template <typename In, typename F>
constexpr SecondCheck SecondCheckOf() {
  if constexpr (ChecksSecond<F, In>)
    return [](const std::byte* b, int64_t count) {
      return F::Check(std::span(reinterpret_cast<const In*>(b), static_cast<size_t>(count)));
    };
  else
    return nullptr;
}

// Calls f(a, b, out, count) for each row, by type.
template <typename In, typename Out, typename F>
void EachRow(const BinaryRows& rows, F f) {
  for (int64_t row = 0; row < rows.rows; ++row)
    f(reinterpret_cast<const In*>(rows.a + row * rows.a_step), reinterpret_cast<const In*>(rows.b + row * rows.b_step),
      reinterpret_cast<Out*>(rows.out + row * rows.out_step), rows.count);
}

template <typename In, typename Out, typename F>
void BinaryRowsOf(const BinaryRows& rows) {
  const int64_t a_stride = rows.a_stride, b_stride = rows.b_stride;
  if (a_stride == 1 && b_stride == 1) {
    EachRow<In, Out>(rows, [](const In* a, const In* b, Out* out, int64_t count) {
#pragma GCC ivdep
      for (int64_t i = 0; i < count; ++i) out[i] = F::Apply(a[i], b[i]);
    });
  } else if (a_stride == 1 && b_stride == 0) {
    EachRow<In, Out>(rows, [](const In* a, const In* b, Out* out, int64_t count) {
      const In y = *b;
#pragma GCC ivdep
      for (int64_t i = 0; i < count; ++i) out[i] = F::Apply(a[i], y);
    });
  } else if (a_stride == 0 && b_stride == 1) {
    EachRow<In, Out>(rows, [](const In* a, const In* b, Out* out, int64_t count) {
      const In x = *a;
#pragma GCC ivdep
      for (int64_t i = 0; i < count; ++i) out[i] = F::Apply(x, b[i]);
    });
  } else {
    EachRow<In, Out>(rows, [=](const In* a, const In* b, Out* out, int64_t count) {
      for (int64_t i = 0; i < count; ++i) out[i] = F::Apply(a[i * a_stride], b[i * b_stride]);
    });
  }
}

template <typename In, typename Out, typename F>
StatusOr<Prepared> PrepareBinary(const NodeView& node, const KernelPolicy&) {
  return PrepareBinaryLoop(node, BinaryRowsOf<In, Out, F>, SecondCheckOf<In, F>());
}

}  // namespace rivulet
