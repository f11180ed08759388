#include "engine/kernels/cpu/strided/elementwise.h"

namespace rivulet {
namespace {

class UnaryLoopKernel final : public Kernel {
 public:
  UnaryLoopKernel(UnaryLoop loop, int64_t count) : loop_(loop), count_(count) {}
  Status Run(const KernelContext& context) const override {
    loop_(context.inputs[0], context.outputs[0], count_);
    return absl::OkStatus();
  }

 private:
  UnaryLoop loop_;
  int64_t count_;
};

class BinaryLoopKernel final : public Kernel {
 public:
  BinaryLoopKernel(const NodeView& node, BinaryLoop loop, SecondCheck check, const StridedWalk<3>& walk)
      : loop_(loop), check_(check), planes_(walk), second_count_(node.inputs[1].shape.elements()) {
    const auto inner = static_cast<size_t>(walk.axes - 1);
    count_ = walk.dims[inner];
    a_stride_ = walk.strides[1][inner];
    b_stride_ = walk.strides[2][inner];
    // The loop traverses the inner two axes; the outer ones are traversed here, in bytes.
    if (--planes_.axes == 0) {
      planes_.axes = 1;
      planes_.dims[0] = 1;
    }
    if (count_ == 0) planes_.dims[0] = 0;
    const auto in = static_cast<int64_t>(SizeOf(node.inputs[0].dtype));
    const std::array<int64_t, 3> sizes = {static_cast<int64_t>(SizeOf(node.outputs[0].dtype)), in, in};
    for (size_t operand = 0; operand < 3; ++operand) {
      planes_.offsets[operand] *= sizes[operand];
      for (int64_t& stride : planes_.strides[operand]) stride *= sizes[operand];
    }
  }
  Status Run(const KernelContext& context) const override {
    const std::byte *a = context.inputs[0], *b = context.inputs[1];
    std::byte* out = context.outputs[0];
    if (check_ != nullptr) RIVULET_RETURN_IF_ERROR(check_(b, second_count_));
    planes_.ForEachRow([&](const std::array<int64_t, 3>& at, const std::array<int64_t, 3>& steps, int64_t rows) {
      loop_({a + at[1], b + at[2], out + at[0], a_stride_, b_stride_, steps[1], steps[2], steps[0], rows, count_});
    });
    return absl::OkStatus();
  }

 private:
  BinaryLoop loop_;
  SecondCheck check_;
  StridedWalk<3> planes_;  // the walk without its innermost axis
  int64_t second_count_, count_, a_stride_, b_stride_;
};

Prepared Loop(const NodeView& node, std::unique_ptr<const Kernel> kernel) {
  Prepared prepared;
  prepared.kernel = std::move(kernel);
  prepared.in_place = InPlacePairs(node);
  prepared.implementation = "loop";
  prepared.flops = static_cast<double>(node.outputs[0].shape.elements());
  return prepared;
}

}  // namespace

StatusOr<Prepared> PrepareUnaryLoop(const NodeView& node, UnaryLoop loop) {
  return Loop(node, std::make_unique<UnaryLoopKernel>(loop, node.outputs[0].shape.elements()));
}

StatusOr<Prepared> PrepareBinaryLoop(const NodeView& node, BinaryLoop loop, SecondCheck check) {
  RIVULET_ASSIGN_OR_RETURN(const auto walk,
                           MakeBroadcastWalk<2>(node.outputs[0].shape, {node.inputs[0].shape, node.inputs[1].shape}));
  return Loop(node, std::make_unique<BinaryLoopKernel>(node, loop, check, walk));
}

}  // namespace rivulet
