// Images of another size.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

Status CheckCenters(const InferenceContext& c) {
  if (c.attr<bool>("align_corners") && c.attr<bool>("half_pixel_centers"))
    return InvalidArgument("align_corners and half_pixel_centers exclude each other");
  return absl::OkStatus();
}

// images [batch, height, width, channels] and `size`, the new [height, width].
Status ResizeShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckCenters(c));
  RIVULET_ASSIGN_OR_RETURN(Shape image, c.WithRank(0, 4));
  if (!Shape::Compatible(c.input(1), Shape({2})))
    return InvalidArgument("size must be [height, width], not of shape {}", c.input(1).ToString());
  RIVULET_ASSIGN_OR_RETURN(const Shape size, ShapeFromInput(c, 1));
  for (int i : {0, 1}) {
    const int64_t from = image.dim(i + 1), to = size.known_rank() ? size.dim(i) : kUnknownDim;
    if (to == 0 || from == 0)
      return InvalidArgument("an image of {} cannot become {}: no side may be 0", image.ToString(), size.ToString());
    image.set_dim(i + 1, to);
  }
  c.set_output(0, std::move(image));
  return absl::OkStatus();
}

Status BilinearGradShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckCenters(c));
  RIVULET_ASSIGN_OR_RETURN(const Shape grads, c.WithRank(0, 4));
  RIVULET_ASSIGN_OR_RETURN(Shape image, c.WithRank(1, 4));
  if (!Shape::Compatible(Shape({grads.dim(0), grads.dim(3)}), Shape({image.dim(0), image.dim(3)})))
    return InvalidArgument("grads {} and original_image {} differ in batch or channels", grads.ToString(),
                           image.ToString());
  for (int i : {1, 2})
    if (grads.dim(i) == 0 || image.dim(i) == 0)
      return InvalidArgument("grads {} and original_image {}: no side may be 0", grads.ToString(), image.ToString());
  c.set_output(0, std::move(image));
  return absl::OkStatus();
}

AttrMap Centers(const Node& node) {
  return {{"align_corners", node.attr<bool>("align_corners")},
          {"half_pixel_centers", node.attr<bool>("half_pixel_centers")}};
}

// [height, width] of an image, as int32.
Output SizeOf(GradientOps& ops, Output image) {
  return ops.Op("StridedSlice", {ops.ShapeOf(image), ops.Ints({1}), ops.Ints({3}), ops.Ints({1})});
}

// Resizing and its gradient are each other's gradient.
GradientFn NearestGradient(const char* op) {
  return [op](GradientContext& g) {
    GradientOps ops(g);
    g.set_input_grad(0, ops.Op(op, {g.grad(), SizeOf(ops, g.input(0))}, Centers(*g.node())));
    return ops.status();
  };
}

Status BilinearGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("ResizeBilinearGrad", {g.grad(), g.input(0)}, Centers(*g.node())));
  return ops.status();
}

Status BilinearGradGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("ResizeBilinear", {g.grad(), SizeOf(ops, g.input(0))}, Centers(*g.node())));
  return ops.status();
}

RIVULET_OP("ResizeNearestNeighbor")
    .Input("images: T")
    .Input("size: int32")
    .Output("resized_images: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Attr("align_corners: bool = false")
    .Attr("half_pixel_centers: bool = false")
    .Shape(ResizeShape)
    .Gradient(NearestGradient("ResizeNearestNeighborGrad"))
    .Doc(
        "NHWC images of the given [height, width]; each pixel is the nearest one. The size must be known when "
        "compiled.");

RIVULET_OP("ResizeNearestNeighborGrad")
    .Input("grads: T")
    .Input("size: int32")
    .Output("output: T")
    .Attr("T: floattype")
    .Attr("align_corners: bool = false")
    .Attr("half_pixel_centers: bool = false")
    .Shape(ResizeShape)
    .Gradient(NearestGradient("ResizeNearestNeighbor"))
    .Doc("The gradient of ResizeNearestNeighbor for images of the given [height, width].");

RIVULET_OP("ResizeBilinear")
    .Input("images: T")
    .Input("size: int32")
    .Output("resized_images: float")
    .Attr("T: {half, bfloat16, float, double, int8, uint8, int16, uint16, int32, int64}")
    .Attr("align_corners: bool = false")
    .Attr("half_pixel_centers: bool = false")
    .Shape(ResizeShape)
    .Gradient(BilinearGradient)
    .Doc(
        "NHWC images of the given [height, width], in float32, interpolated between four pixels. The size must be "
        "known when compiled.");

RIVULET_OP("ResizeBilinearGrad")
    .Input("grads: float")
    .Input("original_image: T")
    .Output("output: T")
    .Attr("T: floattype")
    .Attr("align_corners: bool = false")
    .Attr("half_pixel_centers: bool = false")
    .Shape(BilinearGradShape)
    .Gradient(BilinearGradGradient)
    .Doc("The gradient of ResizeBilinear by original_image.");

}  // namespace
}  // namespace rivulet
