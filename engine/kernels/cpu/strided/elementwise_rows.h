// Elementwise kernels for ops and types that are rarely time-critical. Each (op, type) adds one plain loop to the
// program; elementwise.h has one loop for every way in which operands repeat. Functions are structs as there.
#pragma once

#include "engine/kernels/cpu/strided/elementwise.h"

namespace rivulet {

template <typename In, typename Out, typename F>
StatusOr<Prepared> PrepareUnaryRows(const NodeView& node, const KernelPolicy&) {
  return PrepareUnaryLoop(node, [](const std::byte* in, std::byte* out, int64_t count) {
    for (int64_t i = 0; i < count; ++i) reinterpret_cast<Out*>(out)[i] = F::Apply(reinterpret_cast<const In*>(in)[i]);
  });
}

template <typename In, typename Out, typename F>
StatusOr<Prepared> PrepareBinaryRows(const NodeView& node, const KernelPolicy&) {
  const BinaryLoop loop = [](const BinaryRows& rows) {
    const int64_t a_stride = rows.a_stride, b_stride = rows.b_stride;
    EachRow<In, Out>(rows, [=](const In* a, const In* b, Out* out, int64_t count) {
      for (int64_t i = 0; i < count; ++i) out[i] = F::Apply(a[i * a_stride], b[i * b_stride]);
    });
  };
  return PrepareBinaryLoop(node, loop, SecondCheckOf<In, F>());
}

}  // namespace rivulet
