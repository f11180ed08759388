// Images of another size.
#include "engine/onnx/export/exporter.h"

namespace rivulet::onnx {
namespace {

Status Resize(ExportContext& n) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<int64_t> size, n.KnownInts(1));
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  if (size.size() != 2 || rank != 4) return InvalidArgument("a size of {} values", size.size());
  const bool corners = n.attr<bool>("align_corners"), nearest = n.type() == "ResizeNearestNeighbor";
  const bool half = n.attr<bool>("half_pixel_centers");
  AttrMap attrs = {{"mode", std::string(nearest ? "nearest" : "linear")},
                   {"coordinate_transformation_mode", std::string(corners ? "align_corners"
                                                                  : half  ? "half_pixel"
                                                                          : "asymmetric")}};
  // Like TensorFlow, the engine selects the pixel whose centre is at the half-pixel coordinate.
  if (nearest) attrs["nearest_mode"] = std::string(corners || half ? "round_prefer_ceil" : "floor");
  Value x = n.channels_first(0);
  if (!nearest && n.dtype(0) != DType::kFloat32) x = n.Cast(x, DType::kFloat32);
  // The whole shape: the batch and channels as they are.
  const int64_t batch = n.shape(0).dim(0), channels = n.shape(0).dim(3);
  const Value sizes = batch != kUnknownDim && channels != kUnknownDim
                          ? n.Ints({batch, channels, size[0], size[1]})
                          : n.Concat({n.Slice(n.Op("Shape", {x}), 0, 0, 2), n.Ints({size[0], size[1]})}, 0);
  n.set_output_channels_first(0, n.Op("Resize", {x, "", "", sizes}, std::move(attrs)));
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("ResizeBilinear", Resize);
RIVULET_ONNX_EXPORT("ResizeNearestNeighbor", Resize);

}  // namespace
}  // namespace rivulet::onnx
