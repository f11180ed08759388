// Geometry of a direct convolution and its padded input image, shared by the forward kernels (direct_conv.cc) and those
// of a filter's gradient (direct_filter.cc).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/program/memory_plan.h"

namespace rivulet {

// One image at a time is padded in scratch: `padded_height` rows of `padded_width` pixels.
struct DirectShape {
  int64_t batch, height, width, channels;  // of the padded images
  int64_t pad_top, pad_left, padded_height, padded_width;
  int64_t out_height, out_width, out_channels;
  int64_t window_height, window_width, stride_height, stride_width, dilation_height, dilation_width;
  int64_t groups;

  int64_t row() const { return padded_width * channels; }
  int64_t group_in() const { return channels / groups; }
  int64_t group_out() const { return out_channels / groups; }
  // Number of adjacent elements of a window's row, in the image
  // and in the filter: the whole row, or one tap and group.
  bool whole_rows() const { return dilation_width == 1 && groups == 1; }
  int64_t run() const { return whole_rows() ? window_width * channels : group_in(); }
  int64_t runs() const { return whole_rows() ? 1 : window_width; }  // per row of the window
  size_t padded_bytes() const { return static_cast<size_t>(padded_height * row()) * sizeof(float); }
  // One channel and so few filters that vectors of them would be mostly empty: then sums are over vectors of pixels, if
  // rows are long enough for vectors of sixteen.
  bool few_filters_of_one_channel() const {
    constexpr int64_t kPixels = 16, kMost = 8;
    return channels == 1 && (window_width == 3 || window_width == 5) && window_height <= 7 && dilation_width == 1 &&
           stride_width == 1 && out_channels <= kMost && out_channels % 2 == 0 &&
           out_width * 4 >= (out_width + kPixels - 1) / kPixels * kPixels * 3;
  }
  // Elements of a plane of each filter's gradient, with room for a last vector.
  int64_t plane() const { return RoundUp64(static_cast<size_t>(out_height * out_width)); }
  size_t planes_bytes() const { return static_cast<size_t>(out_channels * plane()) * sizeof(float); }
};

// `padded` must be zeroed before the first image; only the inside changes from image to image.
inline void CopyInside(const DirectShape& s, const float* image, float* padded) {
  const int64_t rows = std::min(s.height, s.padded_height - s.pad_top);
  const int64_t columns = std::min(s.width, s.padded_width - s.pad_left);
  for (int64_t y = 0; y < rows; ++y) {
    std::copy_n(image + y * s.width * s.channels, columns * s.channels,
                padded + (s.pad_top + y) * s.row() + s.pad_left * s.channels);
  }
}

// filter gradient[tap, i, o] = Σ over pixels, image by image. `padded` has room for padded_bytes(), and with
// few_filters_of_one_channel() for planes_bytes() at the next multiple of 64 elements.
void DirectFilterGradient(const DirectShape& s, const float* images, const float* gradient, float* result,
                          float* padded);

}  // namespace rivulet
