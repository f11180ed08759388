// Elementwise kernels by function pointer, for ops and types that are seldom hot: each (op, type) costs one plain loop
// in the program and not a class. Functions are structs as in elementwise.h.
#pragma once

#include <memory>

#include "engine/kernels/cpu/elementwise.h"

namespace rivulet {

using UnaryLoop = void (*)(const std::byte* in, std::byte* out, int64_t count);
// Strides count elements.
using BinaryLoop = void (*)(const std::byte* a, int64_t a_stride, const std::byte* b, int64_t b_stride, std::byte* out,
                            int64_t count);
// Refuses values of the second input, before anything is written.
using SecondCheck = Status (*)(const std::byte* b, int64_t count);

StatusOr<Prepared> PrepareUnaryLoop(const NodeView& node, UnaryLoop loop);
StatusOr<Prepared> PrepareBinaryLoop(const NodeView& node, BinaryLoop loop, SecondCheck check);

template <typename In, typename Out, typename F>
StatusOr<Prepared> PrepareUnaryRows(const NodeView& node, const KernelPolicy&) {
  return PrepareUnaryLoop(node, [](const std::byte* in, std::byte* out, int64_t count) {
    for (int64_t i = 0; i < count; ++i) reinterpret_cast<Out*>(out)[i] = F::Apply(reinterpret_cast<const In*>(in)[i]);
  });
}

template <typename In, typename Out, typename F>
StatusOr<Prepared> PrepareBinaryRows(const NodeView& node, const KernelPolicy&) {
  SecondCheck check = nullptr;
  if constexpr (ChecksSecond<F, In>)
    check = [](const std::byte* b, int64_t count) {
      return F::Check(std::span(reinterpret_cast<const In*>(b), static_cast<size_t>(count)));
    };
  const BinaryLoop loop = [](const std::byte* a, int64_t a_stride, const std::byte* b, int64_t b_stride, std::byte* out,
                             int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      reinterpret_cast<Out*>(out)[i] =
          F::Apply(reinterpret_cast<const In*>(a)[i * a_stride], reinterpret_cast<const In*>(b)[i * b_stride]);
  };
  return PrepareBinaryLoop(node, loop, check);
}

}  // namespace rivulet
