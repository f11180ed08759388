// Three-dimensional convolutions and pools, and their gradients.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"
#include "engine/ops/volume_window.h"

namespace rivulet {
namespace {

const Shape kUnknownVolume({kUnknownDim, kUnknownDim, kUnknownDim, kUnknownDim, kUnknownDim});

StatusOr<Shape> ConvolvedVolumeShape(const AttrMap& attrs, const Shape& volume, const Shape& filter) {
  RIVULET_ASSIGN_OR_RETURN(const VolumeWindow window,
                           MakeVolumeWindow(attrs, volume, {filter.dim(0), filter.dim(1), filter.dim(2)}));
  const int64_t channels = volume.dim(window.channel_axis()), taken = filter.dim(3), given = filter.dim(4);
  if (channels != kUnknownDim && taken != kUnknownDim && channels != taken) {
    const bool groups = taken > 0 && channels % taken == 0;
    if (!groups || (given != kUnknownDim && given % (channels / taken) != 0))
      return InvalidArgument("the volume {} has {} channels, but the filter {} takes {} and gives {}",
                             volume.ToString(), channels, filter.ToString(), taken, given);
  }
  return VolumeOutput(window, volume, given);
}

StatusOr<Shape> PooledVolumeShape(const AttrMap& attrs, const Shape& volume) {
  RIVULET_ASSIGN_OR_RETURN(const VolumeWindow window, PoolVolumeWindow(attrs, volume));
  return VolumeOutput(window, volume, volume.dim(window.channel_axis()));
}

Status Expect(const Shape& actual, const Shape& expected, std::string_view what) {
  if (Shape::Compatible(actual, expected)) return absl::OkStatus();
  return InvalidArgument("{} is {}, but the other inputs ask for {}", what, actual.ToString(), expected.ToString());
}

StatusOr<Shape> FiveSizes(const InferenceContext& c, int i) {
  RIVULET_ASSIGN_OR_RETURN(const Shape sizes, ShapeFromInput(c, i));
  if (!sizes.known_rank()) return kUnknownVolume;
  if (sizes.rank() != 5) return InvalidArgument("input {} must hold 5 sizes, not {}", i, sizes.rank());
  return sizes;
}

Status VolumeForwardShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape volume, c.WithRank(0, 5));
  RIVULET_ASSIGN_OR_RETURN(const Shape filter, c.WithRank(1, 5));
  RIVULET_ASSIGN_OR_RETURN(Shape output, ConvolvedVolumeShape(c.attrs(), volume, filter));
  c.set_output(0, std::move(output));
  return absl::OkStatus();
}

Status VolumeBackpropInputShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape volume, FiveSizes(c, 0));
  RIVULET_ASSIGN_OR_RETURN(const Shape filter, c.WithRank(1, 5));
  RIVULET_ASSIGN_OR_RETURN(const Shape backprop, c.WithRank(2, 5));
  RIVULET_ASSIGN_OR_RETURN(const Shape expected, ConvolvedVolumeShape(c.attrs(), volume, filter));
  RIVULET_RETURN_IF_ERROR(Expect(backprop, expected, "out_backprop"));
  c.set_output(0, volume);
  return absl::OkStatus();
}

Status VolumeBackpropFilterShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape volume, c.WithRank(0, 5));
  RIVULET_ASSIGN_OR_RETURN(const Shape filter, FiveSizes(c, 1));
  RIVULET_ASSIGN_OR_RETURN(const Shape backprop, c.WithRank(2, 5));
  RIVULET_ASSIGN_OR_RETURN(const Shape expected, ConvolvedVolumeShape(c.attrs(), volume, filter));
  RIVULET_RETURN_IF_ERROR(Expect(backprop, expected, "out_backprop"));
  c.set_output(0, filter);
  return absl::OkStatus();
}

Status VolumePoolShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape volume, c.WithRank(0, 5));
  RIVULET_ASSIGN_OR_RETURN(Shape output, PooledVolumeShape(c.attrs(), volume));
  c.set_output(0, std::move(output));
  return absl::OkStatus();
}

// MaxPool3DGrad gives the volume's shape, MaxPool3DGradGrad the pool's.
template <bool kBack>
Status MaxGradShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape volume, c.WithRank(0, 5));
  RIVULET_ASSIGN_OR_RETURN(const Shape pooled, PooledVolumeShape(c.attrs(), volume));
  RIVULET_RETURN_IF_ERROR(Expect(c.input(1), pooled, "orig_output"));
  RIVULET_RETURN_IF_ERROR(Expect(c.input(2), kBack ? volume : pooled, "grad"));
  c.set_output(0, kBack ? pooled : volume);
  return absl::OkStatus();
}

Status AvgGradShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape volume, FiveSizes(c, 0));
  RIVULET_ASSIGN_OR_RETURN(const Shape pooled, PooledVolumeShape(c.attrs(), volume));
  RIVULET_RETURN_IF_ERROR(Expect(c.input(1), pooled, "grad"));
  c.set_output(0, volume);
  return absl::OkStatus();
}

AttrMap VolumeWindowAttrs(const Node& node) {
  AttrMap attrs;
  for (const char* name : {"ksize", "strides", "padding", "data_format", "dilations"})
    if (node.HasAttr(name)) attrs.emplace(name, node.attrs().at(name));
  return attrs;
}

Status VolumeForwardGradient(GradientContext& g) {
  GradientOps ops(g);
  const AttrMap attrs = VolumeWindowAttrs(*g.node());
  const Output volume = g.input(0), filter = g.input(1);
  g.set_input_grad(0, ops.Op("Conv3DBackpropInputV2", {ops.ShapeOf(volume), filter, g.grad()}, attrs));
  g.set_input_grad(1, ops.Op("Conv3DBackpropFilterV2", {volume, ops.ShapeOf(filter), g.grad()}, attrs));
  return ops.status();
}

Status VolumeBackpropInputGradient(GradientContext& g) {
  GradientOps ops(g);
  const AttrMap attrs = VolumeWindowAttrs(*g.node());
  g.set_input_grad(1, ops.Op("Conv3DBackpropFilterV2", {g.grad(), ops.ShapeOf(g.input(1)), g.input(2)}, attrs));
  g.set_input_grad(2, ops.Op("Conv3D", {g.grad(), g.input(1)}, attrs));
  return ops.status();
}

Status VolumeBackpropFilterGradient(GradientContext& g) {
  GradientOps ops(g);
  const AttrMap attrs = VolumeWindowAttrs(*g.node());
  g.set_input_grad(0, ops.Op("Conv3DBackpropInputV2", {ops.ShapeOf(g.input(0)), g.grad(), g.input(2)}, attrs));
  g.set_input_grad(2, ops.Op("Conv3D", {g.input(0), g.grad()}, attrs));
  return ops.status();
}

Status MaxGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("MaxPool3DGrad", {g.input(0), g.output(0), g.grad()}, VolumeWindowAttrs(*g.node())));
  return ops.status();
}

// Linear in grad; which elements win does not change near by.
Status MaxGradGradient(GradientContext& g) {
  GradientOps ops(g);
  const std::string back = g.node()->type() == "MaxPool3DGrad" ? "MaxPool3DGradGrad" : "MaxPool3DGrad";
  g.set_input_grad(2, ops.Op(back, {g.input(0), g.input(1), g.grad()}, VolumeWindowAttrs(*g.node())));
  return ops.status();
}

Status AvgGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("AvgPool3DGrad", {ops.ShapeOf(g.input(0)), g.grad()}, VolumeWindowAttrs(*g.node())));
  return ops.status();
}

Status AvgGradGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(1, ops.Op("AvgPool3D", {g.grad()}, VolumeWindowAttrs(*g.node())));
  return ops.status();
}

#define RIVULET_VOLUME_ATTRS \
  Attr("strides: list(int) >= 5").Attr("padding: {'SAME', 'VALID'}").Attr("data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'")

RIVULET_OP("Conv3D")
    .Input("input: T")
    .Input("filter: T")
    .Output("output: T")
    .Attr("T: floattype")
    .RIVULET_VOLUME_ATTRS.Attr("dilations: list(int) = [1, 1, 1, 1, 1]")
    .Shape(VolumeForwardShape)
    .Gradient(VolumeForwardGradient)
    .Doc(
        "Convolution of volumes [batch, depth, height, width, in] with a filter [depth, height, width, in / groups, "
        "out].");

RIVULET_OP("Conv3DBackpropInputV2")
    .Input("input_sizes: Tshape")
    .Input("filter: T")
    .Input("out_backprop: T")
    .Output("output: T")
    .Attr("T: floattype")
    .Attr("Tshape: {int32, int64} = DT_INT32")
    .RIVULET_VOLUME_ATTRS.Attr("dilations: list(int) = [1, 1, 1, 1, 1]")
    .Shape(VolumeBackpropInputShape)
    .Gradient(VolumeBackpropInputGradient)
    .Doc("The gradient of Conv3D with respect to its volumes, whose shape is input_sizes.");

RIVULET_OP("Conv3DBackpropFilterV2")
    .Input("input: T")
    .Input("filter_sizes: int32")
    .Input("out_backprop: T")
    .Output("output: T")
    .Attr("T: floattype")
    .RIVULET_VOLUME_ATTRS.Attr("dilations: list(int) = [1, 1, 1, 1, 1]")
    .Shape(VolumeBackpropFilterShape)
    .Gradient(VolumeBackpropFilterGradient)
    .Doc("The gradient of Conv3D with respect to its filter, whose shape is filter_sizes.");

RIVULET_OP("MaxPool3D")
    .Input("input: T")
    .Output("output: T")
    .Attr("ksize: list(int) >= 5")
    .RIVULET_VOLUME_ATTRS.Attr("T: floattype")
    .Shape(VolumePoolShape)
    .Gradient(MaxGradient)
    .Doc("The largest element of each window of a volume; padding never wins, NaN always does.");

RIVULET_OP("MaxPool3DGrad")
    .Input("orig_input: TInput")
    .Input("orig_output: TInput")
    .Input("grad: T")
    .Output("output: T")
    .Attr("ksize: list(int) >= 5")
    .RIVULET_VOLUME_ATTRS.Attr("T: floattype = DT_FLOAT")
    .Attr("TInput: floattype = DT_FLOAT")
    .Shape(MaxGradShape<false>)
    .Gradient(MaxGradGradient)
    .Doc("The gradient of MaxPool3D: each window's goes to its first largest element. T and TInput are one type.");

RIVULET_OP("MaxPool3DGradGrad")
    .Input("orig_input: T")
    .Input("orig_output: T")
    .Input("grad: T")
    .Output("output: T")
    .Attr("ksize: list(int) >= 5")
    .RIVULET_VOLUME_ATTRS.Attr("T: floattype")
    .Shape(MaxGradShape<true>)
    .Gradient(MaxGradGradient)
    .Doc("The gradient of MaxPool3DGrad by grad: for each window, the element of grad where the largest is.");

RIVULET_OP("AvgPool3D")
    .Input("input: T")
    .Output("output: T")
    .Attr("ksize: list(int) >= 5")
    .RIVULET_VOLUME_ATTRS.Attr("T: floattype")
    .Shape(VolumePoolShape)
    .Gradient(AvgGradient)
    .Doc("The mean of each window of a volume; padding does not count.");

RIVULET_OP("AvgPool3DGrad")
    .Input("orig_input_shape: int32")
    .Input("grad: T")
    .Output("output: T")
    .Attr("ksize: list(int) >= 5")
    .RIVULET_VOLUME_ATTRS.Attr("T: floattype")
    .Shape(AvgGradShape)
    .Gradient(AvgGradGradient)
    .Doc("The gradient of AvgPool3D: each window's is shared equally by its elements.");

}  // namespace
}  // namespace rivulet
