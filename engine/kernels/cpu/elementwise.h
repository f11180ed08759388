// Kernels that compute each element of their output from the elements at the same place of their inputs, which are
// broadcast as NumPy does. A function is a struct with `static Out Apply(In, …)`.
#pragma once

#include <memory>
#include <type_traits>

#include "engine/kernels/cpu/strided.h"
#include "engine/program/kernel.h"

// The -O2 of the build vectorises next to nothing; these loops are written for it.
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

// (input, 0) for each input whose elements lie as the output's do, so that the output may take its place.
inline std::vector<std::pair<int, int>> InPlacePairs(const NodeView& node) {
  std::vector<std::pair<int, int>> pairs;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (node.inputs[i] == node.outputs[0]) pairs.emplace_back(static_cast<int>(i), 0);
  return pairs;
}

// A function's loops over one type. The kernels that call them are the same for all functions and types, so that a
// further one costs its loops to compile and no more.
using UnaryLoop = void (*)(const std::byte* in, std::byte* out, int64_t count);
// Of a row; strides count elements.
using BinaryLoop = void (*)(const std::byte* a, int64_t a_stride, const std::byte* b, int64_t b_stride, std::byte* out,
                            int64_t count);
// Refuses values of the second input, before anything is written.
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

// F may have `static Status Check(std::span<const In> b)`, called before anything is written.
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

template <typename In, typename Out, typename F>
void BinaryRow(const std::byte* a_bytes, int64_t a_stride, const std::byte* b_bytes, int64_t b_stride,
               std::byte* out_bytes, int64_t count) {
  const In *a = reinterpret_cast<const In*>(a_bytes), *b = reinterpret_cast<const In*>(b_bytes);
  Out* out = reinterpret_cast<Out*>(out_bytes);
  if (a_stride == 1 && b_stride == 1) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) out[i] = F::Apply(a[i], b[i]);
  } else if (a_stride == 1 && b_stride == 0) {
    const In y = *b;
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) out[i] = F::Apply(a[i], y);
  } else if (a_stride == 0 && b_stride == 1) {
    const In x = *a;
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) out[i] = F::Apply(x, b[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) out[i] = F::Apply(a[i * a_stride], b[i * b_stride]);
  }
}

template <typename In, typename Out, typename F>
StatusOr<Prepared> PrepareBinary(const NodeView& node, const KernelPolicy&) {
  return PrepareBinaryLoop(node, BinaryRow<In, Out, F>, SecondCheckOf<In, F>());
}

}  // namespace rivulet
