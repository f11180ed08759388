// The sizes of a convolution's tensors, recovered from its product on a device.
#pragma once

#include <cstdint>

#include "engine/kernels/cuda/convolution.h"

namespace rivulet::gpu {

enum class ConvolutionDirection : int32_t { kForward, kInput, kFilter };

// The tensors of a convolution, according to the product's sizes and the geometry.
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

}  // namespace rivulet::gpu
