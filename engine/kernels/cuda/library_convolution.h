// Convolutions by cuDNN's graph API, for measuring beside our own (engine/kernels/cuda_libraries). No program runs one:
// it goes over lanes one after the other, and only over lanes 0, 1, ….
#pragma once

#include <cstdint>

#include "engine/kernels/cuda/convolution.h"

namespace rivulet::gpu {

enum class ConvolutionDirection : int32_t { kForward, kInput, kFilter };

// "library_convolution_float", "library_convolution_tf32": what "convolution_…" computes, without bias and activation.
// `candidate` counts the engines that cuDNN proposes, best guess first, without those whose bits differ from run to
// run.
struct LibraryConvolutionArguments {
  ConvolutionArguments convolution;
  ConvolutionDirection direction;
  int32_t candidate;
  int32_t* candidates;  // the host's: how many there are; nothing is computed where it is not null
};

// The tensors of a convolution, as the product's sizes and the geometry say them.
struct ConvolutionSizes {
  int64_t batch, in_height, in_width, in, out_height, out_width, out;
  int64_t height, width;  // of the filter
  int64_t taps() const { return height * width * in; }
};
inline ConvolutionSizes ConvolutionSizesOf(const ConvolutionArguments& c, ConvolutionDirection direction) {
  const ConvolutionGeometry& g = c.geometry;
  ConvolutionSizes s{};
  s.in_height = g.in_height;
  s.in_width = g.in_width;
  s.in = g.in_channels.divisor;
  s.out_height = g.out_height.divisor;
  s.out_width = g.out_width.divisor;
  s.out = g.out_channels.divisor;
  s.width = g.width.divisor;
  const int64_t in_pixels = s.in_height * s.in_width, out_pixels = s.out_height * s.out_width;
  switch (direction) {
    case ConvolutionDirection::kForward:
      s.batch = c.rows / out_pixels;
      s.height = c.depth / (s.width * s.in);
      break;
    case ConvolutionDirection::kInput:
      s.batch = c.rows / in_pixels;
      s.height = c.depth / (s.width * s.out);
      break;
    case ConvolutionDirection::kFilter:
      s.batch = c.depth / out_pixels;
      s.height = c.rows / (s.width * s.in);
      break;
  }
  return s;
}

// What windows reach over behind the image; ours are only told what lies before it.
inline int64_t PaddingBehind(int64_t out, int64_t stride, int64_t window, int64_t step, int64_t in, int64_t before) {
  const int64_t reached = (out - 1) * stride + (window - 1) * step + 1 - in - before;
  return reached > 0 ? reached : 0;
}

}  // namespace rivulet::gpu
