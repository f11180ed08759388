// Tensors from shapes and scalars, broadcasts to a shape, and small arithmetic on shapes.
#include <algorithm>
#include <cstring>

#include "engine/kernels/cpu/movement/copies.h"
#include "engine/kernels/cpu/strided/elementwise.h"
#include "engine/kernels/cpu/strided/function_kernel.h"

namespace rivulet {
namespace {

template <typename Word>
class FillKernel final : public Kernel {
 public:
  explicit FillKernel(int64_t count) : count_(count) {}
  Status Run(const KernelContext& context) const override {
    std::fill_n(OutputOf<Word>(context, 0), count_, *InputOf<Word>(context, 1));
    return absl::OkStatus();
  }

 private:
  int64_t count_;
};

// A value that is known when the kernel is prepared.
template <typename Word>
class ValueKernel final : public Kernel {
 public:
  ValueKernel(int64_t count, Word value) : count_(count), value_(value) {}
  Status Run(const KernelContext& context) const override {
    std::fill_n(OutputOf<Word>(context, 0), count_, value_);
    return absl::OkStatus();
  }

 private:
  int64_t count_;
  Word value_;
};

template <typename Word>
std::unique_ptr<const Kernel> MakeFill(int64_t count) {
  return std::make_unique<FillKernel<Word>>(count);
}
template <typename Word>
std::unique_ptr<const Kernel> MakeValue(int64_t count, uint64_t bits) {
  return std::make_unique<ValueKernel<Word>>(count, static_cast<Word>(bits));
}

StatusOr<Prepared> PrepareFill(const NodeView& node, const KernelPolicy&) {
  const int64_t count = node.outputs[0].shape.elements();
  Prepared prepared;
  RIVULET_ASSIGN_OR_RETURN(prepared.kernel, ForElementSize(node.outputs[0].dtype,
                                                           [&](auto word) { return MakeFill<decltype(word)>(count); }));
  prepared.implementation = "loop";
  return prepared;
}

template <int kValue>
StatusOr<Prepared> PrepareLike(const NodeView& node, const KernelPolicy&) {
  const DType dtype = node.outputs[0].dtype;
  const int64_t count = node.outputs[0].shape.elements();
  Prepared prepared;
  RIVULET_ASSIGN_OR_RETURN(prepared.kernel, ForElementSize(dtype, [&](auto word) {
                             return MakeValue<decltype(word)>(count, kValue == 0 ? 0 : BitsOfOne(dtype));
                           }));
  prepared.in_place = {{0, 0}};
  prepared.implementation = "loop";
  return prepared;
}

template <typename T>
class RangeKernel final : public Kernel {
 public:
  explicit RangeKernel(int64_t count) : count_(count) {}
  Status Run(const KernelContext& context) const override {
    const T start = *InputOf<T>(context, 0), delta = *InputOf<T>(context, 2);
    T* out = OutputOf<T>(context, 0);
    if constexpr (std::is_integral_v<T>) {
      // The values are in range, but i · delta may overflow.
      using Unsigned = std::make_unsigned_t<T>;
      for (int64_t i = 0; i < count_; ++i)
        out[i] = static_cast<T>(static_cast<Unsigned>(start) + static_cast<Unsigned>(i) * static_cast<Unsigned>(delta));
    } else {
      for (int64_t i = 0; i < count_; ++i) out[i] = start + static_cast<T>(i) * delta;
    }
    return absl::OkStatus();
  }

 private:
  int64_t count_;
};

template <typename T>
StatusOr<Prepared> PrepareRange(const NodeView& node, const KernelPolicy&) {
  Prepared prepared;
  prepared.kernel = std::make_unique<RangeKernel<T>>(node.outputs[0].shape.elements());
  prepared.implementation = "loop";
  return prepared;
}

// Computes each value from its index; the last is exactly stop.
template <typename T>
class LinSpaceKernel final : public Kernel {
 public:
  explicit LinSpaceKernel(int64_t count) : count_(count) {}
  Status Run(const KernelContext& context) const override {
    const T start = *InputOf<T>(context, 0), stop = *InputOf<T>(context, 1);
    T* out = OutputOf<T>(context, 0);
    const T step = count_ > 1 ? (stop - start) / static_cast<T>(count_ - 1) : T{0};
    for (int64_t i = 0; i < count_; ++i) out[i] = start + step * static_cast<T>(i);
    if (count_ > 1) out[count_ - 1] = stop;
    return absl::OkStatus();
  }

 private:
  int64_t count_;
};

template <typename T>
StatusOr<Prepared> PrepareLinSpace(const NodeView& node, const KernelPolicy&) {
  Prepared prepared;
  prepared.kernel = std::make_unique<LinSpaceKernel<T>>(node.outputs[0].shape.elements());
  prepared.implementation = "loop";
  return prepared;
}

// The axes that a broadcast of s0 with s1 repeats, for each of them.
template <typename T>
class BroadcastGradientArgsKernel final : public Kernel {
 public:
  BroadcastGradientArgsKernel(int64_t rank0, int64_t rank1, int64_t count0, int64_t count1)
      : ranks_{rank0, rank1}, counts_{count0, count1} {}
  Status Run(const KernelContext& context) const override {
    const int64_t rank = std::max(ranks_[0], ranks_[1]);
    int64_t written[2] = {0, 0};
    for (int64_t axis = 0; axis < rank; ++axis) {
      int64_t size[2];
      bool absent[2];
      for (size_t i = 0; i < 2; ++i) {
        const int64_t own = axis - (rank - ranks_[i]);
        absent[i] = own < 0;
        size[i] = absent[i] ? 1 : static_cast<int64_t>(InputOf<T>(context, i)[own]);
      }
      for (size_t i = 0; i < 2; ++i) {
        if (!absent[i] && !(size[i] == 1 && size[1 - i] != 1)) continue;
        if (written[i] < counts_[i]) OutputOf<T>(context, i)[written[i]] = static_cast<T>(axis);
        ++written[i];
      }
    }
    if (written[0] != counts_[0] || written[1] != counts_[1])
      return InvalidArgument("the shapes differ from those for which the program was compiled");
    return absl::OkStatus();
  }

 private:
  int64_t ranks_[2], counts_[2];
};

template <typename T>
StatusOr<Prepared> PrepareBroadcastGradientArgs(const NodeView& node, const KernelPolicy&) {
  Prepared prepared;
  prepared.kernel =
      std::make_unique<BroadcastGradientArgsKernel<T>>(node.inputs[0].shape.dim(0), node.inputs[1].shape.dim(0),
                                                       node.outputs[0].shape.dim(0), node.outputs[1].shape.dim(0));
  prepared.implementation = "loop";
  return prepared;
}

StatusOr<Prepared> PrepareBroadcastTo(const NodeView& node, const KernelPolicy&) {
  const Shape& output = node.outputs[0].shape;
  std::vector<StridedCopy> copies;
  RIVULET_RETURN_IF_ERROR(
      AddCopy(copies, 0, 0, output.dims(), RowMajorStrides(output), BroadcastStrides(node.inputs[0].shape, output)));
  return PrepareCopies(node, std::move(copies));
}

template <typename T>
StatusOr<Prepared> PrepareBroadcastArgs(const NodeView& node, const KernelPolicy&) {
  const int64_t ranks[2] = {node.inputs[0].shape.dim(0), node.inputs[1].shape.dim(0)};
  const int64_t rank = node.outputs[0].shape.dim(0);
  return MakeFunctionKernel([=](const KernelContext& c) -> Status {
    for (int64_t axis = 0; axis < rank; ++axis) {
      T sizes[2] = {1, 1};
      for (size_t i = 0; i < 2; ++i)
        if (const int64_t own = axis - (rank - ranks[i]); own >= 0) sizes[i] = InputOf<T>(c, i)[own];
      if (sizes[0] != sizes[1] && sizes[0] != 1 && sizes[1] != 1)
        return InvalidArgument("sizes {} and {} of axis {} cannot be broadcast together", sizes[0], sizes[1], axis);
      OutputOf<T>(c, 0)[axis] = sizes[0] == 1 ? sizes[1] : sizes[0];
    }
    return absl::OkStatus();
  });
}

template <typename T>
StatusOr<Prepared> PrepareUnravel(const NodeView& node, const KernelPolicy&) {
  const int64_t count = node.inputs[0].shape.elements(), rank = node.inputs[1].shape.dim(0);
  return MakeFunctionKernel([=](const KernelContext& c) -> Status {
    const T* dims = InputOf<T>(c, 1);
    for (int64_t i = 0; i < count; ++i) {
      T rest = InputOf<T>(c, 0)[i];
      if (rest < 0) return InvalidArgument("indices[{}] is {}", i, rest);
      for (int64_t axis = rank; axis-- > 0; rest /= dims[axis]) {
        if (dims[axis] <= 0) return InvalidArgument("dims[{}] is {}", axis, dims[axis]);
        OutputOf<T>(c, 0)[axis * count + i] = rest % dims[axis];
      }
      if (rest != 0) return InvalidArgument("indices[{}] is {}, beyond dims", i, InputOf<T>(c, 0)[i]);
    }
    return absl::OkStatus();
  });
}
RIVULET_KERNEL("BroadcastArgs", Device::kCpu, int32_t, PrepareBroadcastArgs<int32_t>);
RIVULET_KERNEL("BroadcastArgs", Device::kCpu, int64_t, PrepareBroadcastArgs<int64_t>);
RIVULET_KERNEL("UnravelIndex", Device::kCpu, int32_t, PrepareUnravel<int32_t>);
RIVULET_KERNEL("UnravelIndex", Device::kCpu, int64_t, PrepareUnravel<int64_t>);

RIVULET_KERNEL_OF_EVERY_SIZE("Fill", PrepareFill);
RIVULET_KERNEL_OF_EVERY_SIZE("ZerosLike", PrepareLike<0>);
RIVULET_KERNEL_OF_EVERY_SIZE("OnesLike", PrepareLike<1>);
RIVULET_KERNEL_OF_EVERY_SIZE("BroadcastTo", PrepareBroadcastTo);

RIVULET_KERNEL("Range", Device::kCpu, float, PrepareRange<float>);
RIVULET_KERNEL("Range", Device::kCpu, double, PrepareRange<double>);
RIVULET_KERNEL("Range", Device::kCpu, int32_t, PrepareRange<int32_t>);
RIVULET_KERNEL("Range", Device::kCpu, int64_t, PrepareRange<int64_t>);
RIVULET_KERNEL("LinSpace", Device::kCpu, float, PrepareLinSpace<float>);
RIVULET_KERNEL("LinSpace", Device::kCpu, double, PrepareLinSpace<double>);
RIVULET_KERNEL("BroadcastGradientArgs", Device::kCpu, int32_t, PrepareBroadcastGradientArgs<int32_t>);
RIVULET_KERNEL("BroadcastGradientArgs", Device::kCpu, int64_t, PrepareBroadcastGradientArgs<int64_t>);

}  // namespace
}  // namespace rivulet
