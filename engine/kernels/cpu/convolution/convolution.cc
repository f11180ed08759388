// Conv2D, DepthwiseConv2dNative, their gradients and _FusedConv2D: reads the node and binds the kernel that choose.h
// selects for its shape.
#include <memory>

#include "engine/kernels/cpu/convolution/alternatives.h"
#include "engine/kernels/cpu/convolution/choose.h"
#include "engine/program/kernel_alternatives.h"

namespace rivulet {
namespace {

// Drops the size inputs of the gradients, which repeat the shapes: the kernel gets the two tensors.
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

template <typename T, bool kDepthwise, ConvolutionChoice kChoose = ChooseConvolution<T>>
StatusOr<Prepared> PrepareForward(const NodeView& node, const KernelPolicy& policy) {
  ConvolutionProblem p{ConvDirection::kForward, {}, {node.inputs[0], node.inputs[1]}, node.outputs[0]};
  RIVULET_ASSIGN_OR_RETURN(p.window,
                           ConvWindow(node, p.inputs[0].shape, p.inputs[1].shape, p.output.shape, kDepthwise));
  return kChoose(p, policy);
}

// For _FusedConv2D, with the output `output`.
StatusOr<ConvolutionProblem> FusedProblem(const NodeView& node, const TensorSpec& output) {
  ConvolutionProblem p{ConvDirection::kForward, {}, {node.inputs[0], node.inputs[1]}, output};
  RIVULET_ASSIGN_OR_RETURN(p.window, ConvWindow(node, p.inputs[0].shape, p.inputs[1].shape, p.output.shape));
  RIVULET_ASSIGN_OR_RETURN(p.fused, FusedOpsOf(node.node.attrs()));
  if (p.fused.bias && (node.inputs.size() != 3 || node.inputs[2].shape != Shape({p.window.out_channels})))
    return InvalidArgument("BiasAdd needs one arg, a bias of {} channels", p.window.out_channels);
  return p;
}

template <typename T>
StatusOr<Prepared> PrepareFused(const NodeView& node, const KernelPolicy& policy) {
  RIVULET_ASSIGN_OR_RETURN(const ConvolutionProblem p, FusedProblem(node, node.outputs[0]));
  return ChooseConvolution<T>(p, policy);
}

StatusOr<Prepared> PrepareFusedPooled(const NodeView& node, const KernelPolicy& policy) {
  RIVULET_ASSIGN_OR_RETURN(const ImageWindow window,
                           ConvolutionWindow(node.node.attrs(), node.inputs[0].shape, node.inputs[1].shape));
  if (window.layout.channels_first) return Unimplemented("pools after convolutions are of NHWC images");
  const Shape& pooled = node.outputs[0].shape;
  const Shape output({pooled.dim(0), window.height.output, window.width.output, pooled.dim(3)});
  RIVULET_ASSIGN_OR_RETURN(const ConvolutionProblem p, FusedProblem(node, {node.outputs[0].dtype, output}));
  return ChoosePooledConvolution(p, policy);
}

template <typename T, bool kDepthwise, ConvolutionChoice kChoose = ChooseConvolution<T>>
StatusOr<Prepared> PrepareBackpropInput(const NodeView& node, const KernelPolicy& policy) {
  ConvolutionProblem p{ConvDirection::kBackwardInput, {}, {node.inputs[1], node.inputs[2]}, node.outputs[0]};
  RIVULET_ASSIGN_OR_RETURN(p.window,
                           ConvWindow(node, p.output.shape, p.inputs[0].shape, p.inputs[1].shape, kDepthwise));
  RIVULET_ASSIGN_OR_RETURN(Prepared prepared, kChoose(p, policy));
  prepared.kernel = std::make_unique<TwoOfThree>(std::move(prepared.kernel), 1, 2);
  return prepared;
}

template <typename T, bool kDepthwise, ConvolutionChoice kChoose = ChooseConvolution<T>>
StatusOr<Prepared> PrepareBackpropFilter(const NodeView& node, const KernelPolicy& policy) {
  ConvolutionProblem p{ConvDirection::kBackwardFilter, {}, {node.inputs[0], node.inputs[2]}, node.outputs[0]};
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

RIVULET_CONVOLUTION_ALTERNATIVES("dnnl", ConvolutionByLibrary);
RIVULET_CONVOLUTION_ALTERNATIVES("own", ConvolutionByOwn);
RIVULET_CONVOLUTION_ALTERNATIVES("winograd", ConvolutionByWinograd);
RIVULET_CONVOLUTION_ALTERNATIVES("interleaved", ConvolutionByInterleaving);
RIVULET_CONVOLUTION_ALTERNATIVES("reference", ConvolutionByReference);

RIVULET_CONVOLUTION_KERNELS(float);
RIVULET_CONVOLUTION_KERNELS(double);
RIVULET_CONVOLUTION_KERNELS(bfloat16);
RIVULET_KERNEL("_FusedConv2D", Device::kCpu, float, PrepareFused<float>);
RIVULET_KERNEL("_FusedConv2D", Device::kCpu, double, PrepareFused<double>);
RIVULET_KERNEL("_FusedConv2D", Device::kCpu, bfloat16, PrepareFused<bfloat16>);
RIVULET_KERNEL("_FusedConv2DMaxPool", Device::kCpu, float, PrepareFusedPooled);

}  // namespace
}  // namespace rivulet
