// Colours of images, pieces of them, and images seen through an affine map.
#include <algorithm>

#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

Status ColourShape(InferenceContext& c) {
  const Shape& images = c.input(0);
  if (images.known_rank()) {
    if (images.rank() == 0 || (images.dim(images.rank() - 1) != 3 && images.dim(images.rank() - 1) != kUnknownDim))
      return InvalidArgument("images {} do not have three channels last", images.ToString());
  }
  c.set_output(0, images);
  return absl::OkStatus();
}

Status ContrastShape(InferenceContext& c) {
  if (c.input(0).known_rank() && c.input(0).rank() < 3)
    return InvalidArgument("images {} are not [..., height, width, channels]", c.input(0).ToString());
  RIVULET_RETURN_IF_ERROR(CheckScalars(c, {1}));
  c.set_output(0, c.input(0));
  return absl::OkStatus();
}

// [batch or `batch`, size input, channels].
Status SizedImages(InferenceContext& c, int size, int64_t batch, bool own_batch) {
  RIVULET_ASSIGN_OR_RETURN(const Shape images, c.WithRank(0, 4));
  RIVULET_ASSIGN_OR_RETURN(const auto sizes, KnownIntegers(c, size));
  if (!Shape::Compatible(c.input(size), Shape({2})))
    return InvalidArgument("the size must be [height, width], not of shape {}", c.input(size).ToString());
  if (sizes && ((*sizes)[0] < 1 || (*sizes)[1] < 1))
    return InvalidArgument("images of {} x {} have no pixels", (*sizes)[0], (*sizes)[1]);
  c.set_output(0, Shape({own_batch ? images.dim(0) : batch, sizes ? (*sizes)[0] : kUnknownDim,
                         sizes ? (*sizes)[1] : kUnknownDim, images.dim(3)}));
  return absl::OkStatus();
}

Status CropShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape boxes, c.WithRank(1, 2));
  RIVULET_RETURN_IF_ERROR(c.WithRank(2, 1).status());
  return SizedImages(c, 3, boxes.dim(0), false);
}
Status ProjectiveShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(c.WithRank(1, 2).status());
  return SizedImages(c, 2, 0, true);
}
Status ResizedShape(InferenceContext& c) { return SizedImages(c, 1, 0, true); }

StatusOr<int64_t> Positions(int64_t size, int64_t window, int64_t stride, int64_t rate, bool same) {
  if (size == kUnknownDim) return kUnknownDim;
  const int64_t reach = (window - 1) * rate + 1;
  const int64_t count = same ? (size + stride - 1) / stride : (size - reach) / stride + 1;
  if (!same && size < reach) return InvalidArgument("a window of {} does not fit into {}", reach, size);
  return count;
}

// Strides and rates by [1, rows, columns, 1].
Status CheckWindow(const std::vector<int64_t>& values, std::string_view name) {
  constexpr int64_t kMost = int64_t{1} << 24;
  if (values.size() != 4 || values[0] != 1 || values[3] != 1 || values[1] < 1 || values[2] < 1 || values[1] > kMost ||
      values[2] > kMost)
    return InvalidArgument("{} must be [1, rows, columns, 1], all from 1 to {}", name, kMost);
  return absl::OkStatus();
}

Status PatchesShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape images, c.WithRank(0, 4));
  const auto &sizes = c.attr<std::vector<int64_t>>("ksizes"), &strides = c.attr<std::vector<int64_t>>("strides"),
             &rates = c.attr<std::vector<int64_t>>("rates");
  RIVULET_RETURN_IF_ERROR(CheckWindow(sizes, "ksizes"));
  RIVULET_RETURN_IF_ERROR(CheckWindow(strides, "strides"));
  RIVULET_RETURN_IF_ERROR(CheckWindow(rates, "rates"));
  const bool same = c.attr<std::string>("padding") == "SAME";
  RIVULET_ASSIGN_OR_RETURN(const int64_t rows, Positions(images.dim(1), sizes[1], strides[1], rates[1], same));
  RIVULET_ASSIGN_OR_RETURN(const int64_t columns, Positions(images.dim(2), sizes[2], strides[2], rates[2], same));
  RIVULET_ASSIGN_OR_RETURN(const int64_t window, MultiplyDims(sizes[1], sizes[2]));
  RIVULET_ASSIGN_OR_RETURN(const int64_t depth, MultiplyDims(window, images.dim(3)));
  c.set_output(0, Shape({images.dim(0), rows, columns, depth}));
  return absl::OkStatus();
}

Status DilationShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape images, c.WithRank(0, 4));
  RIVULET_ASSIGN_OR_RETURN(const Shape filter, c.WithRank(1, 3));
  const auto &strides = c.attr<std::vector<int64_t>>("strides"), &rates = c.attr<std::vector<int64_t>>("rates");
  RIVULET_RETURN_IF_ERROR(CheckWindow(strides, "strides"));
  RIVULET_RETURN_IF_ERROR(CheckWindow(rates, "rates"));
  if (!Shape::Compatible(Shape({images.dim(3)}), Shape({filter.dim(2)})))
    return InvalidArgument("input {} and filter {} differ in channels", images.ToString(), filter.ToString());
  const bool same = c.attr<std::string>("padding") == "SAME";
  const bool known = filter.dim(0) != kUnknownDim && filter.dim(1) != kUnknownDim;
  int64_t rows = kUnknownDim, columns = kUnknownDim;
  if (known) {
    RIVULET_ASSIGN_OR_RETURN(rows, Positions(images.dim(1), filter.dim(0), strides[1], rates[1], same));
    RIVULET_ASSIGN_OR_RETURN(columns, Positions(images.dim(2), filter.dim(1), strides[2], rates[2], same));
  }
  c.set_output(0, Shape({images.dim(0), rows, columns, images.dim(3)}));
  return absl::OkStatus();
}

// The mean keeps its share: dy · factor, and (1 - factor) of the mean of dy.
Status ContrastGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output images = g.input(0), factor = g.input(1);
  if (g.wants(1)) return Unimplemented("the gradient of AdjustContrastv2 by contrast_factor");
  const Output of_pixels = ops.Mul(g.grad(), factor);
  const Output mean = ops.Op("Mean", {g.grad(), ops.Ints({-3, -2})}, {{"keep_dims", true}});
  const Output left = ops.Sub(ops.Scalar(images.dtype(), 1), factor);
  g.set_input_grad(0, ops.Add(of_pixels, ops.Mul(mean, left)));
  return ops.status();
}

RIVULET_OP("RGBToHSV")
    .Input("images: T")
    .Output("output: T")
    .Attr("T: floattype = DT_FLOAT")
    .Shape(ColourShape)
    .NotDifferentiable("its gradient is not offered")
    .Doc("Hue, saturation and value of red, green and blue, all in [0, 1]; channels are last.");

RIVULET_OP("HSVToRGB")
    .Input("images: T")
    .Output("output: T")
    .Attr("T: floattype = DT_FLOAT")
    .Shape(ColourShape)
    .NotDifferentiable("TensorFlow defines none")
    .Doc("Red, green and blue of hue, saturation and value, all in [0, 1]; channels are last.");

RIVULET_OP("AdjustContrastv2")
    .Input("images: T")
    .Input("contrast_factor: float")
    .Output("output: T")
    .Attr("T: {float} = DT_FLOAT")
    .Shape(ContrastShape)
    .Gradient(ContrastGradient)
    .Doc("(x - mean) * contrast_factor + mean, with the mean of each channel of each image.");

RIVULET_OP("CropAndResize")
    .Input("image: T")
    .Input("boxes: float")
    .Input("box_ind: int32")
    .Input("crop_size: int32")
    .Output("crops: float")
    .Attr("T: {uint8, float, double, int32}")
    .Attr("method: {'bilinear', 'nearest'} = 'bilinear'")
    .Attr("extrapolation_value: float = 0")
    .Shape(CropShape)
    .NotDifferentiable("its gradient is not offered")
    .Doc(
        "The pieces of images that boxes [top, left, bottom, right] say, in shares of height and width, each in one "
        "size. crop_size must be known when a program is compiled.");

RIVULET_OP("ImageProjectiveTransformV3")
    .Input("images: dtype")
    .Input("transforms: float")
    .Input("output_shape: int32")
    .Input("fill_value: float")
    .Output("transformed_images: dtype")
    .Attr("dtype: {uint8, int32, int64, float, double}")
    .Attr("interpolation: {'BILINEAR', 'NEAREST'}")
    .Attr("fill_mode: {'CONSTANT', 'NEAREST', 'REFLECT', 'WRAP'} = 'CONSTANT'")
    .Shape(ProjectiveShape)
    .NotDifferentiable("its gradient is not offered")
    .Doc("Images seen through projective maps from places of the result to places of the image.");

RIVULET_OP("ResizeArea")
    .Input("images: T")
    .Input("size: int32")
    .Output("resized_images: float")
    .Attr("T: {uint8, int32, int64, half, float, double}")
    .Attr("align_corners: bool = false")
    .Shape(ResizedShape)
    .NotDifferentiable("TensorFlow defines none")
    .Doc("NHWC images of another size; each pixel is the mean of the area that it covers.");

RIVULET_OP("ScaleAndTranslate")
    .Input("images: T")
    .Input("size: int32")
    .Input("scale: float")
    .Input("translation: float")
    .Output("resized_images: float")
    .Attr("T: {uint8, int32, int64, half, float, double}")
    .Attr(
        "kernel_type: {'lanczos1', 'lanczos3', 'lanczos5', 'gaussian', 'box', 'triangle', 'keyscubic', "
        "'mitchellcubic'} = 'lanczos3'")
    .Attr("antialias: bool = true")
    .Shape(ResizedShape)
    .NotDifferentiable("its gradient is not offered")
    .Doc("NHWC images scaled and moved, each pixel a weighted mean of those around its place.");

RIVULET_OP("ExtractImagePatches")
    .Input("images: T")
    .Output("patches: T")
    .Attr("ksizes: list(int) >= 4")
    .Attr("strides: list(int) >= 4")
    .Attr("rates: list(int) >= 4")
    .Attr("T: {half, bfloat16, float, double, int8, int16, int32, int64, uint8, uint16, uint32, uint64, bool}")
    .Attr("padding: {'SAME', 'VALID'}")
    .Shape(PatchesShape)
    .NotDifferentiable("its gradient is not offered")
    .Doc("The windows of each NHWC image, one after the other in the depth of the result.");

RIVULET_OP("Dilation2D")
    .Input("input: T")
    .Input("filter: T")
    .Output("output: T")
    .Attr("T: {float, double, int32, int64}")
    .Attr("strides: list(int) >= 4")
    .Attr("rates: list(int) >= 4")
    .Attr("padding: {'SAME', 'VALID'}")
    .Shape(DilationShape)
    .NotDifferentiable("its gradient is not offered")
    .Doc("The largest of input + filter over each window, channel by channel.");

}  // namespace
}  // namespace rivulet
