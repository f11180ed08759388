// Arguments of convolutions as products (convolution.cu).
#pragma once

#include "engine/kernels/cuda/divider.h"
#include "engine/kernels/cuda/lane_span.h"
#include "engine/kernels/cuda/matmul.h"

namespace rivulet::gpu {

// Geometry of a filter's taps on an image. Images are NHWC, filters [height, width, in, out].
struct ConvolutionGeometry {
  int32_t in_height, in_width;
  int32_t pad_top, pad_left;
  int32_t step_height, step_width;  // between taps: dilation
  Divider stride_height, stride_width;
  Divider in_channels, out_channels;
  Divider width;                                         // of the filter
  Divider out_width, out_height, in_widths, in_heights;  // sizes of the images, as divisors
};

// "convolution_T_tile" (forward: pixels by taps), "convolution_input_T_tile" (the image's gradient; with stride 1
// "convolution_input_dense_T_tile", which needs no division) and "convolution_filter_T_tile" (the filter's gradient):
// `a` and `b` are the factors of the product, c the result.
struct ConvolutionArguments {
  LaneSpan<const void> a, b;
  LaneSpan<void> c;
  Epilogue epilogue;
  int32_t rows, columns, depth;  // of the product
  ConvolutionGeometry geometry;
  Divider row_tiles, column_tiles;
  DepthChunks chunks;
  Lanes lanes;
};

// "patches_float": the matrix [pixels of the result, taps] that turns a convolution into a product, in memory (im2col).
// No step launches it: it serves as a baseline for the implicit products.
struct PatchesArguments {
  LaneSpan<const float> image;
  LaneSpan<float> patches;
  int32_t pixels, taps;  // fewer than 2^31 elements
  ConvolutionGeometry geometry;
  Divider by_taps;
  Lanes lanes;
};

}  // namespace rivulet::gpu
