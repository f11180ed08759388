// Pools over images and volumes.
#include "engine/onnx/export/exporter.h"
#include "engine/onnx/export/window.h"
#include "engine/ops/volume_window.h"
#include "engine/ops/window.h"

namespace rivulet::onnx {
namespace {

Status Pooled(ExportContext& n, const std::vector<WindowAxis>& axes, bool channels_first, const char* op) {
  const bool average = op == std::string_view("AveragePool");
  AttrMap attrs = WindowAttributes(axes, n.attr<std::string>("padding"));
  if (average && attrs.contains("dilations"))
    return Unimplemented("an average over a dilated window, which ONNX has since opset 19");
  if (n.attr_or("_ceil_mode", false)) attrs["ceil_mode"] = true;
  if (average && n.attr_or("_count_include_pad", false)) attrs["count_include_pad"] = true;
  if (channels_first)
    n.set_output(0, n.Op(op, {n.input(0)}, std::move(attrs)));
  else
    n.set_output_channels_first(0, n.Op(op, {n.channels_first(0)}, std::move(attrs)));
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
