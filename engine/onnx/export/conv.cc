// Convolutions. Filters of the engine are [spatial…, in / groups, out], ONNX's [out, in / groups, spatial…].
#include <algorithm>

#include "engine/onnx/export/exporter.h"
#include "engine/onnx/export/window.h"
#include "engine/ops/volume_window.h"
#include "engine/ops/window.h"

namespace rivulet::onnx {
namespace {

void SetImage(ExportContext& n, bool channels_first, const Value& y) {
  if (channels_first)
    n.set_output(0, y);
  else
    n.set_output_channels_first(0, y);
}

Value Image(const ExportContext& n, int i, bool channels_first) {
  return channels_first ? n.input(i) : n.channels_first(i);
}

StatusOr<int64_t> GroupsOf(int64_t channels, int64_t per_group) {
  if (channels == kUnknownDim) return FailedPrecondition("the image's channels must be known");
  if (per_group < 1 || channels % per_group != 0)
    return InvalidArgument("{} channels are no groups of {}", channels, per_group);
  return channels / per_group;
}

StatusOr<Value> Convolved(ExportContext& n, bool& channels_first) {
  RIVULET_ASSIGN_OR_RETURN(const Shape filter, n.KnownShape(1));
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  if (rank != 4) return InvalidArgument("an image with {} axes", rank);
  RIVULET_ASSIGN_OR_RETURN(const ImageWindow window, ConvolutionWindow(n.node().attrs(), n.shape(0), filter));
  channels_first = window.layout.channels_first;
  AttrMap attrs = WindowAttributes({window.height, window.width}, n.attr<std::string>("padding"));
  RIVULET_ASSIGN_OR_RETURN(const int64_t groups, GroupsOf(n.shape(0).dim(window.layout.channels), filter.dim(2)));
  if (groups != 1) attrs["group"] = groups;
  const Value x = Image(n, 0, channels_first);
  return n.Op("Conv", {x, n.Arranged(1, {3, 2, 0, 1})}, std::move(attrs));
}

Status Conv2D(ExportContext& n) {
  bool channels_first = false;
  RIVULET_ASSIGN_OR_RETURN(const Value y, Convolved(n, channels_first));
  SetImage(n, channels_first, y);
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("Conv2D", Conv2D);

StatusOr<Value> Finished(ExportContext& n, bool& channels_first) {
  RIVULET_ASSIGN_OR_RETURN(Value y, Convolved(n, channels_first));
  RIVULET_ASSIGN_OR_RETURN(const FusedOps fused, FusedOpsOf(n.node().attrs()));
  if (fused.bias) y = n.Op("Add", {y, n.Unsqueeze(n.input(2), {1, 2})});
  if (fused.activation == FusedOps::Activation::kRelu) y = n.Op("Relu", {y});
  if (fused.activation == FusedOps::Activation::kRelu6)
    y = n.Op("Clip", {y, n.Scalar(n.dtype(0), 0), n.Scalar(n.dtype(0), 6)});
  return y;
}

Status FusedConv2D(ExportContext& n) {
  bool channels_first = false;
  RIVULET_ASSIGN_OR_RETURN(const Value y, Finished(n, channels_first));
  SetImage(n, channels_first, y);
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("_FusedConv2D", FusedConv2D);

Status FusedConv2DMaxPool(ExportContext& n) {
  bool channels_first = false;
  RIVULET_ASSIGN_OR_RETURN(const Value y, Finished(n, channels_first));
  const std::vector<int64_t> two = {2, 2};
  SetImage(n, channels_first, n.Op("MaxPool", {y}, {{"kernel_shape", two}, {"strides", two}}));
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("_FusedConv2DMaxPool", FusedConv2DMaxPool);

// There is one group per channel; its `multiplier` results are adjacent in both.
Status Depthwise(ExportContext& n) {
  RIVULET_ASSIGN_OR_RETURN(const Shape filter, n.KnownShape(1));
  RIVULET_ASSIGN_OR_RETURN(const ImageWindow window, ConvolutionWindow(n.node().attrs(), n.shape(0), filter));
  const bool channels_first = window.layout.channels_first;
  const int64_t channels = filter.dim(2), multiplier = filter.dim(3);
  AttrMap attrs = WindowAttributes({window.height, window.width}, n.attr<std::string>("padding"));
  attrs["group"] = channels;
  const Value x = Image(n, 0, channels_first);
  const Value w = n.Arranged(1, {2, 3, 0, 1}, {channels * multiplier, 1, filter.dim(0), filter.dim(1)});
  SetImage(n, channels_first, n.Op("Conv", {x, w}, std::move(attrs)));
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("DepthwiseConv2dNative", Depthwise);

// Forwards: a transposed convolution. The window is that of the convolution which it is the gradient of.
Status Transposed(ExportContext& n) {
  RIVULET_ASSIGN_OR_RETURN(const Shape filter, n.KnownShape(1));
  const Shape image = n.OutputShape(0), smaller = n.InputShape(2);
  if (!image.known_rank() || image.rank() != 4) return FailedPrecondition("the image's size must be known");
  RIVULET_ASSIGN_OR_RETURN(const ImageWindow window, ConvolutionWindow(n.node().attrs(), image, filter));
  const bool channels_first = window.layout.channels_first;
  const std::vector<WindowAxis> axes = {window.height, window.width};
  AttrMap attrs = WindowAttributes(axes, n.attr<std::string>("padding"));
  std::vector<int64_t> extra;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t in = smaller.dim((channels_first ? 2 : 1) + static_cast<int>(i));
    if (axes[i].input == kUnknownDim || in == kUnknownDim)
      return FailedPrecondition("the sizes of the image {} and of its result {} must be known", smaller.ToString(),
                                image.ToString());
    const int64_t reach = (axes[i].window - 1) * axes[i].dilation + 1;
    extra.push_back(axes[i].input - ((in - 1) * axes[i].stride + reach - axes[i].pad_before - axes[i].pad_after));
  }
  if (std::ranges::any_of(extra, [](int64_t amount) { return amount != 0; })) attrs["output_padding"] = extra;
  int64_t groups = n.attr_or<int64_t>("_groups", 0);
  const int64_t channels = image.dim(window.layout.channels);
  if (groups == 0) groups = channels == kUnknownDim ? 1 : channels / std::max<int64_t>(filter.dim(2), 1);
  if (groups != 1) attrs["group"] = groups;
  const Value x = Image(n, 2, channels_first);
  SetImage(n, channels_first, n.Op("ConvTranspose", {x, n.Arranged(1, {3, 2, 0, 1})}, std::move(attrs)));
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("Conv2DBackpropInput", Transposed);

Status Conv3D(ExportContext& n) {
  RIVULET_ASSIGN_OR_RETURN(const Shape filter, n.KnownShape(1));
  RIVULET_ASSIGN_OR_RETURN(const VolumeWindow window, MakeVolumeWindow(n.node().attrs(), n.shape(0),
                                                                       {filter.dim(0), filter.dim(1), filter.dim(2)}));
  AttrMap attrs = WindowAttributes({window.axes.begin(), window.axes.end()}, n.attr<std::string>("padding"));
  RIVULET_ASSIGN_OR_RETURN(const int64_t groups, GroupsOf(n.shape(0).dim(window.channel_axis()), filter.dim(3)));
  if (groups != 1) attrs["group"] = groups;
  const Value x = Image(n, 0, window.channels_first);
  SetImage(n, window.channels_first, n.Op("Conv", {x, n.Arranged(1, {4, 3, 0, 1, 2})}, std::move(attrs)));
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("Conv3D", Conv3D);

}  // namespace
}  // namespace rivulet::onnx
