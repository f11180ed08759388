// Pools over images and volumes.
#include "engine/onnx/export/exporter.h"
#include "engine/onnx/export/window.h"
#include "engine/ops/volume_window.h"
#include "engine/ops/window.h"

namespace rivulet::onnx {
namespace {

Status Pooled(ExportContext& n, std::vector<WindowAxis> axes, bool channels_first, const char* op) {
  const bool average = op == std::string_view("AveragePool");
  // A last window that reaches beyond the padding (_ceil_mode) is more padding: which windows count then is said by the
  // sizes, not by rules that runtimes read differently.
  bool known = true;
  for (WindowAxis& axis : axes) {
    known = known && axis.output != kUnknownDim;
    if (axis.output == kUnknownDim || n.attr<std::string>("padding") == "SAME") continue;
    const int64_t reach = (axis.window - 1) * axis.dilation + 1;
    const int64_t beyond = (axis.output - 1) * axis.stride + reach - axis.input - axis.pad_before - axis.pad_after;
    if (beyond <= 0) continue;
    if (average && n.attr_or("_count_include_pad", false))
      return Unimplemented("AvgPool with count_include_pad and ceil_mode cannot be exported");
    axis.pad_after += beyond;
  }
  AttrMap attrs = WindowAttributes(axes, n.attr<std::string>("padding"));
  if (average && attrs.contains("dilations"))
    return Unimplemented("an average over a dilated window, which ONNX has since opset 19");
  if (n.attr_or("_ceil_mode", false) && !known) attrs["ceil_mode"] = true;
  if (average && n.attr_or("_count_include_pad", false)) attrs["count_include_pad"] = true;
  // ONNX's maxima are of floating types and of 8 bits; float32 holds all of 16.
  const DType dtype = n.dtype(0);
  const bool narrow = dtype == DType::kInt16 || dtype == DType::kUint16;
  if (dtype == DType::kInt32 || dtype == DType::kInt64) return Unimplemented("a pool of {}", Name(dtype));
  const auto pooled = [&](const Value& x) {
    const Value y = n.Op(op, {narrow ? n.Cast(x, DType::kFloat32) : x}, std::move(attrs));
    return narrow ? n.Cast(y, dtype) : y;
  };
  if (channels_first)
    n.set_output(0, pooled(n.input(0)));
  else
    n.set_output_channels_first(0, pooled(n.channels_first(0)));
  return absl::OkStatus();
}

Status Pool2d(ExportContext& n, const char* op) {
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  if (rank != 4) return InvalidArgument("an image with {} axes", rank);
  RIVULET_ASSIGN_OR_RETURN(const ImageWindow window, PoolWindow(n.node().attrs(), n.shape(0)));
  return Pooled(n, {window.height, window.width}, window.layout.channels_first, op);
}
RIVULET_ONNX_EXPORT("MaxPool", [](ExportContext& n) { return Pool2d(n, "MaxPool"); });
RIVULET_ONNX_EXPORT("MaxPoolWithArgmax", [](ExportContext& n) -> Status {
  RIVULET_RETURN_IF_ERROR(n.RefuseOutput(1, "positions that count the channels too"));
  return Pool2d(n, "MaxPool");
});
RIVULET_ONNX_EXPORT("AvgPool", [](ExportContext& n) { return Pool2d(n, "AveragePool"); });

Status Pool3d(ExportContext& n, const char* op) {
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  if (rank != 5) return InvalidArgument("a volume with {} axes", rank);
  RIVULET_ASSIGN_OR_RETURN(const VolumeWindow window, PoolVolumeWindow(n.node().attrs(), n.shape(0)));
  return Pooled(n, {window.axes.begin(), window.axes.end()}, window.channels_first, op);
}
RIVULET_ONNX_EXPORT("MaxPool3D", [](ExportContext& n) { return Pool3d(n, "MaxPool"); });
RIVULET_ONNX_EXPORT("AvgPool3D", [](ExportContext& n) { return Pool3d(n, "AveragePool"); });

}  // namespace
}  // namespace rivulet::onnx
