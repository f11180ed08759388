// Images of another size.
#include "engine/onnx/export/exporter.h"

namespace rivulet::onnx {
namespace {

Status Resize(ExportContext& n) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<int64_t> size, n.KnownInts(1));
  if (size.size() != 2) return InvalidArgument("a size of {} values", size.size());
  const bool corners = n.attr<bool>("align_corners"), nearest = n.type() == "ResizeNearestNeighbor";
  const bool half = n.attr<bool>("half_pixel_centers");
  AttrMap attrs = {{"mode", std::string(nearest ? "nearest" : "linear")},
                   {"axes", std::vector<int64_t>{2, 3}},
                   {"coordinate_transformation_mode", std::string(corners ? "align_corners"
                                                                  : half  ? "half_pixel"
                                                                          : "asymmetric")}};
  // The engine, as TensorFlow, takes the pixel whose centre the half-pixel coordinate falls on.
  if (nearest) attrs["nearest_mode"] = std::string(corners || half ? "round_prefer_ceil" : "floor");
  Value x = n.channels_first(0);
  if (!nearest && n.dtype(0) != DType::kFloat32) x = n.Cast(x, DType::kFloat32);
  n.set_output_channels_first(0, n.Op("Resize", {x, "", "", n.Ints(size)}, std::move(attrs)));
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("ResizeBilinear", Resize);
RIVULET_ONNX_EXPORT("ResizeNearestNeighbor", Resize);

}  // namespace
}  // namespace rivulet::onnx
