// Conv2D, DepthwiseConv2dNative, their gradients and _FusedConv2D: chosen by shape between oneDNN, our direct kernels
// and those by fewer multiplications for float32; plain loops for everything else. Portable kernels are products of
// patches, or loops.
#include "engine/kernels/cpu/convolution/convolution.h"

#include "engine/kernels/cpu/convolution/batch_interleaved_conv.h"
#include "engine/kernels/cpu/convolution/conv_loops.h"
#include "engine/kernels/cpu/convolution/depthwise.h"
#include "engine/kernels/cpu/convolution/direct_conv.h"
#include "engine/kernels/cpu/convolution/dnnl_convolution.h"
#include "engine/kernels/cpu/convolution/epilogue.h"
#include "engine/kernels/cpu/convolution/planar_conv.h"
#include "engine/kernels/cpu/convolution/pooled_convolution.h"
#include "engine/kernels/cpu/convolution/portable_conv.h"
#include "engine/kernels/cpu/convolution/tile_conv.h"
#include "engine/kernels/cpu/convolution/winograd.h"
#include "engine/kernels/cpu/elementwise/activation_bfloat16.h"
#include "engine/program/kernel_alternatives.h"

namespace rivulet {
namespace {

// Drops the size inputs of the gradients, which say what the shapes say: the kernel sees the two tensors.
class TwoOfThree final : public Kernel {
 public:
  TwoOfThree(std::unique_ptr<const Kernel> kernel, size_t first, size_t second)
      : kernel_(std::move(kernel)), first_(first), second_(second) {}
  Status Run(const KernelContext& context) const override {
    std::byte* const inputs[] = {context.inputs[first_], context.inputs[second_]};
    KernelContext inner = context;
    inner.inputs = inputs;
    return kernel_->Run(inner);
  }
  std::unique_ptr<KernelState> NewState() const override { return kernel_->NewState(); }

 private:
  std::unique_ptr<const Kernel> kernel_;
  size_t first_, second_;
};

// One convolution: its geometry and the tensors that a kernel sees, in ConvDirection's order.
struct Problem {
  ConvDirection direction;
  Window window;
  std::array<TensorSpec, 2> inputs;
  TensorSpec output;
  FusedOps fused = {};
};

std::vector<bool> ImageInputs(ConvDirection direction) {
  switch (direction) {
    case ConvDirection::kForward:
      return {true, false};
    case ConvDirection::kBackwardInput:
      return {false, true};
    case ConvDirection::kBackwardFilter:
      return {true, true};
  }
  return {};
}

// An NHWC kernel for the problem's layout.
Prepared InLayout(Prepared nhwc, const Problem& p) {
  if (!p.window.nchw) return nhwc;
  return ForNchw(std::move(nhwc), p.inputs, p.output, ImageInputs(p.direction),
                 p.direction != ConvDirection::kBackwardFilter);
}

template <typename T>
Prepared WithFusedOps(Prepared inner, const Problem& p) {
  if (!p.fused.any()) return inner;
  const Window& w = p.window;
  const int64_t pixels = w.out_height * w.out_width;
  return WithEpilogue<T>(std::move(inner), p.fused, w.nchw ? w.batch : w.batch * pixels, w.out_channels,
                         w.nchw ? pixels : 1);
}

// Images that no cache holds: there our depthwise kernels, which read memory in order and write past the caches, beat
// the library's.
bool VastImages(const Window& w) {
  constexpr int64_t kManyElements = 4 << 20;
  return w.in_elements() > kManyElements;
}

// And on NCHW, whose images it would reorder.
bool OwnDepthwise(const Problem& p) {
  const Window& w = p.window;
  return w.depthwise() && w.out_channels == w.in_channels && (w.nchw || VastImages(w));
}

// The library's forward depthwise kernels are faster than its gradients of images.
std::optional<Prepared> DepthwiseInputGradient(const Problem& p) {
  const Window& w = p.window;
  if (p.direction != ConvDirection::kBackwardInput || !w.depthwise() || w.nchw || w.out_channels != w.in_channels ||
      VastImages(w))
    return std::nullopt;
  const std::optional<Window> rotated = RotatedDepthwiseWindow(w);
  if (!rotated) return std::nullopt;
  std::optional<Prepared> forward = DnnlConvolution(ConvDirection::kForward, *rotated);
  if (!forward) return std::nullopt;
  return WithRotatedFilter(*std::move(forward), w);
}

// The first layers of images and of LeNet: with so few channels a window's row is a short sum for whoever makes it, and
// ours have bias and activation done to each image while it is in the cache, where the library's would take another
// walk over all of them. Images that need padding are the library's: it copies none. Without bias and activation the
// choice is the same, so that a fused convolution has the bits of its parts.
bool FewChannelsForward(const Problem& p) {
  constexpr int64_t kFewIn = 6, kFewOut = 32;
  const Window& w = p.window;
  return p.direction == ConvDirection::kForward && !w.nchw && w.groups == 1 && w.in_channels <= kFewIn &&
         w.out_channels <= kFewOut && w.stride_height == 1 && w.stride_width == 1 && w.pad_top == 0 &&
         w.pad_left == 0 && w.pad_bottom == 0 && w.pad_right == 0;
}

// Of NHWC images with so few channels that vectors of them are mostly empty.
std::optional<Prepared> OfFewChannels(const Problem& p) {
  if (std::optional<Prepared> interleaved = BatchInterleavedConvolution(p.direction, p.window, p.fused))
    return interleaved;
  return PlanarConvolution(p.direction, p.window, p.fused);
}

std::optional<Prepared> PrepareFast(const Problem& p) {
  if (std::optional<Prepared> rotated = DepthwiseInputGradient(p)) return rotated;
  if (OwnDepthwise(p)) {
    if (std::optional<Prepared> own = DepthwiseConvolution(p.direction, p.window))
      return WithFusedOps<float>(*std::move(own), p);
  }
  if (p.window.nchw) {
    if (std::optional<Prepared> planar = PlanarConvolution(p.direction, p.window))
      return WithFusedOps<float>(InLayout(*std::move(planar), p), p);
  } else if (std::optional<Prepared> few = OfFewChannels(p)) {
    return few;
  }
  if (p.window.nchw) {
    if (std::optional<Prepared> winograd = WinogradConvolution(p.direction, p.window))
      return WithFusedOps<float>(InLayout(*std::move(winograd), p), p);
  } else if (std::optional<Prepared> winograd = WinogradConvolution(p.direction, p.window, p.fused)) {
    return winograd;
  }
  if (FewChannelsForward(p)) {
    if (std::optional<Prepared> direct = DirectConvolution(p.direction, p.window, p.fused)) return direct;
  }
  // The library's own bias and activation would save little beside ours, but add the bias before the last sums, and
  // make 0 of a NaN.
  if (std::optional<Prepared> library = DnnlConvolution(p.direction, p.window))
    return WithFusedOps<float>(*std::move(library), p);
  if (p.window.depthwise()) {
    if (std::optional<Prepared> own = DepthwiseConvolution(p.direction, p.window))
      return WithFusedOps<float>(*std::move(own), p);
  }
  if (p.window.nchw) {
    if (std::optional<Prepared> direct = DirectConvolution(p.direction, p.window))
      return WithFusedOps<float>(InLayout(*std::move(direct), p), p);
  }
  return DirectConvolution(p.direction, p.window, p.fused);
}

template <typename T>
StatusOr<Prepared> PrepareProblem(const Problem& p, const KernelPolicy& policy) {
  if constexpr (std::is_same_v<T, float>) {
    const Window& w = p.window;
    if (!policy.portable && w.depthwise() && w.group_out() > 1) {
      Problem one = p;  // its images have each channel as often as there are filters for it
      one.window.in_channels = one.window.groups = w.out_channels;
      one.fused = {};
      if (std::optional<Prepared> fast = PrepareFast(one))
        return WithFusedOps<T>(WithChannelMultiplier<T>(*std::move(fast), p.direction, w), p);
    } else if (!policy.portable) {
      if (std::optional<Prepared> fast = PrepareFast(p)) return *std::move(fast);
    }
  }
  if (policy.portable) {
    if (std::optional<Prepared> product = PortableConvolution<T>(p.direction, p.window))
      return WithFusedOps<T>(InLayout(*std::move(product), p), p);
  }
  return WithFusedOps<T>(InLayout(ConvolutionByLoops<T>(p.direction, p.window), p), p);
}

// bfloat16 where the library is fast at it; else UNIMPLEMENTED, and the node runs through float32.
template <>
StatusOr<Prepared> PrepareProblem<bfloat16>(const Problem& p, const KernelPolicy& policy) {
  const Window& w = p.window;
  const bool depthwise_multiplier = w.depthwise() && w.group_out() > 1;
  if (!policy.portable && !depthwise_multiplier && !(p.fused.any() && w.nchw)) {
    // oneDNN's forward convolutions are as fast as ours, but have no bias and activation that we would want.
    if (p.direction != ConvDirection::kForward || p.fused.any()) {
      if (std::optional<Prepared> tiles = TileConvolution(p.direction, w, p.fused))
        return InLayout(*std::move(tiles), p);
    }
    if (auto fast = DnnlConvolution(p.direction, w, DType::kBFloat16)) {
      if (!p.fused.any()) return *std::move(fast);
      return WithBFloat16Epilogue(*std::move(fast), p.fused, w.batch * w.out_height * w.out_width, w.out_channels);
    }
  }
  return Unimplemented("bfloat16 convolutions of this shape are not fast on this CPU");
}

// What other than PrepareProblem's choice may be measured beside it.
using ProblemFn = StatusOr<Prepared> (*)(const Problem&, const KernelPolicy&);

StatusOr<Prepared> NoneFor(std::string_view what) { return Unimplemented("{} for this shape on this CPU", what); }

StatusOr<Prepared> ByDnnl(const Problem& p, const KernelPolicy&) {
  if (p.window.depthwise() && p.window.group_out() > 1) return NoneFor("oneDNN has no such convolution");
  if (std::optional<Prepared> library = DnnlConvolution(p.direction, p.window)) return *std::move(library);
  return NoneFor("oneDNN has no fast convolution");
}

StatusOr<Prepared> ByOwn(const Problem& p, const KernelPolicy&) {
  if (p.window.depthwise() && p.window.group_out() > 1) return NoneFor("we have no such convolution of our own");
  if (p.window.depthwise() && p.window.out_channels == p.window.in_channels) {
    if (std::optional<Prepared> own = DepthwiseConvolution(p.direction, p.window)) return *std::move(own);
  }
  if (std::optional<Prepared> planar = PlanarConvolution(p.direction, p.window)) return InLayout(*std::move(planar), p);
  if (std::optional<Prepared> direct = DirectConvolution(p.direction, p.window)) return InLayout(*std::move(direct), p);
  return NoneFor("we have no convolution of our own");
}

StatusOr<Prepared> ByWinograd(const Problem& p, const KernelPolicy&) {
  if (std::optional<Prepared> winograd = AnyWinogradConvolution(p.direction, p.window))
    return InLayout(*std::move(winograd), p);
  return NoneFor("there is no convolution by fewer multiplications");
}

StatusOr<Prepared> ByBatchInterleaved(const Problem& p, const KernelPolicy&) {
  if (std::optional<Prepared> interleaved = AnyBatchInterleavedConvolution(p.direction, p.window))
    return InLayout(*std::move(interleaved), p);
  return NoneFor("there is no batch-interleaved convolution");
}

StatusOr<Prepared> ByLoops(const Problem& p, const KernelPolicy&) {
  return InLayout(ConvolutionByLoops<float>(p.direction, p.window), p);
}

template <typename T, bool kDepthwise, ProblemFn kChoose = PrepareProblem<T>>
StatusOr<Prepared> PrepareForward(const NodeView& node, const KernelPolicy& policy) {
  Problem p{ConvDirection::kForward, {}, {node.inputs[0], node.inputs[1]}, node.outputs[0]};
  RIVULET_ASSIGN_OR_RETURN(p.window,
                           ConvWindow(node, p.inputs[0].shape, p.inputs[1].shape, p.output.shape, kDepthwise));
  return kChoose(p, policy);
}

// Of _FusedConv2D, whose output is `output`.
StatusOr<Problem> FusedProblem(const NodeView& node, const TensorSpec& output) {
  Problem p{ConvDirection::kForward, {}, {node.inputs[0], node.inputs[1]}, output};
  RIVULET_ASSIGN_OR_RETURN(p.window, ConvWindow(node, p.inputs[0].shape, p.inputs[1].shape, p.output.shape));
  RIVULET_ASSIGN_OR_RETURN(p.fused, FusedOpsOf(node.node.attrs()));
  if (p.fused.bias && (node.inputs.size() != 3 || node.inputs[2].shape != Shape({p.window.out_channels})))
    return InvalidArgument("BiasAdd needs one arg, a bias of {} channels", p.window.out_channels);
  return p;
}

template <typename T>
StatusOr<Prepared> PrepareFused(const NodeView& node, const KernelPolicy& policy) {
  RIVULET_ASSIGN_OR_RETURN(const Problem p, FusedProblem(node, node.outputs[0]));
  return PrepareProblem<T>(p, policy);
}

// The convolution is the one that _FusedConv2D would take, so that its bits are the same; only where that is by fewer
// multiplications are its outputs pooled in registers.
StatusOr<Prepared> PrepareFusedPooled(const NodeView& node, const KernelPolicy& policy) {
  RIVULET_ASSIGN_OR_RETURN(const ImageWindow window,
                           ConvolutionWindow(node.node.attrs(), node.inputs[0].shape, node.inputs[1].shape));
  if (window.layout.channels_first) return Unimplemented("pools after convolutions are of NHWC images");
  const Shape& pooled = node.outputs[0].shape;
  const Shape output({pooled.dim(0), window.height.output, window.width.output, pooled.dim(3)});
  RIVULET_ASSIGN_OR_RETURN(const Problem p, FusedProblem(node, {node.outputs[0].dtype, output}));
  if (!policy.portable && !OfFewChannels(p) && !p.window.depthwise() && p.fused.bias) {
    if (std::optional<Prepared> inside = WinogradConvolution(p.direction, p.window, p.fused, /*pooled=*/true))
      return *std::move(inside);
  }
  RIVULET_ASSIGN_OR_RETURN(Prepared convolution, PrepareProblem<float>(p, policy));
  return WithMaxPool(std::move(convolution), p.window);
}

template <typename T, bool kDepthwise, ProblemFn kChoose = PrepareProblem<T>>
StatusOr<Prepared> PrepareBackpropInput(const NodeView& node, const KernelPolicy& policy) {
  Problem p{ConvDirection::kBackwardInput, {}, {node.inputs[1], node.inputs[2]}, node.outputs[0]};
  RIVULET_ASSIGN_OR_RETURN(p.window,
                           ConvWindow(node, p.output.shape, p.inputs[0].shape, p.inputs[1].shape, kDepthwise));
  RIVULET_ASSIGN_OR_RETURN(Prepared prepared, kChoose(p, policy));
  prepared.kernel = std::make_unique<TwoOfThree>(std::move(prepared.kernel), 1, 2);
  return prepared;
}

template <typename T, bool kDepthwise, ProblemFn kChoose = PrepareProblem<T>>
StatusOr<Prepared> PrepareBackpropFilter(const NodeView& node, const KernelPolicy& policy) {
  Problem p{ConvDirection::kBackwardFilter, {}, {node.inputs[0], node.inputs[2]}, node.outputs[0]};
  RIVULET_ASSIGN_OR_RETURN(p.window,
                           ConvWindow(node, p.inputs[0].shape, p.output.shape, p.inputs[1].shape, kDepthwise));
  RIVULET_ASSIGN_OR_RETURN(Prepared prepared, kChoose(p, policy));
  prepared.kernel = std::make_unique<TwoOfThree>(std::move(prepared.kernel), 0, 2);
  return prepared;
}

#define RIVULET_CONVOLUTION_KERNELS(T)                                                                    \
  RIVULET_KERNEL("Conv2D", Device::kCpu, T, (PrepareForward<T, false>));                                  \
  RIVULET_KERNEL("Conv2DBackpropInput", Device::kCpu, T, (PrepareBackpropInput<T, false>));               \
  RIVULET_KERNEL("Conv2DBackpropFilter", Device::kCpu, T, (PrepareBackpropFilter<T, false>));             \
  RIVULET_KERNEL("DepthwiseConv2dNative", Device::kCpu, T, (PrepareForward<T, true>));                    \
  RIVULET_KERNEL("DepthwiseConv2dNativeBackpropInput", Device::kCpu, T, (PrepareBackpropInput<T, true>)); \
  RIVULET_KERNEL("DepthwiseConv2dNativeBackpropFilter", Device::kCpu, T, (PrepareBackpropFilter<T, true>))

#define RIVULET_CONVOLUTION_ALTERNATIVES(name, choose)                                                            \
  RIVULET_KERNEL_ALTERNATIVE("Conv2D", float, name, (PrepareForward<float, false, choose>));                      \
  RIVULET_KERNEL_ALTERNATIVE("Conv2DBackpropInput", float, name, (PrepareBackpropInput<float, false, choose>));   \
  RIVULET_KERNEL_ALTERNATIVE("Conv2DBackpropFilter", float, name, (PrepareBackpropFilter<float, false, choose>)); \
  RIVULET_KERNEL_ALTERNATIVE("DepthwiseConv2dNative", float, name, (PrepareForward<float, true, choose>))

RIVULET_CONVOLUTION_ALTERNATIVES("dnnl", ByDnnl);
RIVULET_CONVOLUTION_ALTERNATIVES("own", ByOwn);
RIVULET_CONVOLUTION_ALTERNATIVES("winograd", ByWinograd);
RIVULET_CONVOLUTION_ALTERNATIVES("interleaved", ByBatchInterleaved);
RIVULET_CONVOLUTION_ALTERNATIVES("reference", ByLoops);

RIVULET_CONVOLUTION_KERNELS(float);
RIVULET_CONVOLUTION_KERNELS(double);
RIVULET_CONVOLUTION_KERNELS(bfloat16);
RIVULET_KERNEL("_FusedConv2D", Device::kCpu, float, PrepareFused<float>);
RIVULET_KERNEL("_FusedConv2D", Device::kCpu, double, PrepareFused<double>);
RIVULET_KERNEL("_FusedConv2D", Device::kCpu, bfloat16, PrepareFused<bfloat16>);
RIVULET_KERNEL("_FusedConv2DMaxPool", Device::kCpu, float, PrepareFusedPooled);

}  // namespace
}  // namespace rivulet
