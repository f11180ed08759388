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

template <typename In, typename Out, typename F>
class UnaryKernel final : public Kernel {
 public:
  explicit UnaryKernel(int64_t count) : count_(count) {}
  Status Run(const KernelContext& context) const override {
    const In* in = InputOf<In>(context, 0);
    Out* out = OutputOf<Out>(context, 0);
    const int64_t count = count_;
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) out[i] = F::Apply(in[i]);
    return absl::OkStatus();
  }

 private:
  int64_t count_;
};

template <typename In, typename Out, typename F>
StatusOr<Prepared> PrepareUnary(const NodeView& node, const KernelPolicy&) {
  Prepared prepared;
  prepared.kernel = std::make_unique<UnaryKernel<In, Out, F>>(node.outputs[0].shape.elements());
  prepared.in_place = InPlacePairs(node);
  prepared.implementation = "loop";
  prepared.flops = static_cast<double>(node.outputs[0].shape.elements());
  return prepared;
}

// F may have `static Status Check(std::span<const In> b)`, called before anything is written.
template <typename F, typename In>
concept ChecksSecond = requires(std::span<const In> b) {
  { F::Check(b) } -> std::same_as<Status>;
};

template <typename In, typename Out, typename F>
class BinaryKernel final : public Kernel {
 public:
  BinaryKernel(StridedWalk<3> walk, int64_t second_count) : walk_(walk), second_count_(second_count) {}
  Status Run(const KernelContext& context) const override {
    const In *a = InputOf<In>(context, 0), *b = InputOf<In>(context, 1);
    Out* out = OutputOf<Out>(context, 0);
    if constexpr (ChecksSecond<F, In>)
      RIVULET_RETURN_IF_ERROR(F::Check(std::span(b, static_cast<size_t>(second_count_))));
    walk_.ForEachRow([&](const std::array<int64_t, 3>& at, const std::array<int64_t, 3>& stride, int64_t count) {
      Row(a + at[1], stride[1], b + at[2], stride[2], out + at[0], count);
    });
    return absl::OkStatus();
  }

 private:
  static void Row(const In* a, int64_t a_stride, const In* b, int64_t b_stride, Out* out, int64_t count) {
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

  StridedWalk<3> walk_;
  int64_t second_count_;
};

template <typename In, typename Out, typename F>
StatusOr<Prepared> PrepareBinary(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(auto walk,
                           MakeBroadcastWalk<2>(node.outputs[0].shape, {node.inputs[0].shape, node.inputs[1].shape}));
  Prepared prepared;
  prepared.kernel = std::make_unique<BinaryKernel<In, Out, F>>(walk, node.inputs[1].shape.elements());
  prepared.in_place = InPlacePairs(node);
  prepared.implementation = "loop";
  prepared.flops = static_cast<double>(node.outputs[0].shape.elements());
  return prepared;
}

}  // namespace rivulet
