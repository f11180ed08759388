// Convolutions of stride 1 in plain float64 loops, and the differences of a prepared kernel from them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "engine/kernels/cpu/convolution/convolution.h"
#include "tests/engine/kernels/run_op.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {

inline constexpr ConvDirection kDirections[] = {ConvDirection::kForward, ConvDirection::kBackwardInput,
                                                ConvDirection::kBackwardFilter};

// Stride 1; `before` and `after` are the padding on both axes.
inline Window WindowOf(int64_t batch, int64_t height, int64_t width, int64_t in, int64_t out, int64_t window,
                       int64_t before, int64_t after) {
  Window w;
  w.batch = batch;
  w.in_height = height;
  w.in_width = width;
  w.in_channels = in;
  w.out_height = height + before + after - window + 1;
  w.out_width = width + before + after - window + 1;
  w.out_channels = out;
  w.height = w.width = window;
  w.pad_top = w.pad_left = before;
  w.pad_bottom = w.pad_right = after;
  return w;
}

inline Window Same(int64_t batch, int64_t side, int64_t in, int64_t out, int64_t window) {
  return WindowOf(batch, side, side, in, out, window, window / 2, window / 2);
}

inline std::string NameOf(const Window& w) {
  return fmt::format("{}x{}x{}x{} by {}x{} to {}, padding {} and {}", w.batch, w.in_height, w.in_width, w.in_channels,
                     w.height, w.width, w.out_channels, w.pad_top, w.pad_bottom);
}

struct Tensors {
  Tensor image, filter, gradient;
  explicit Tensors(const Window& w)
      : image(RandomTensor<float>({w.batch, w.in_height, w.in_width, w.in_channels}, 1)),
        filter(RandomTensor<float>({w.height, w.width, w.in_channels, w.out_channels}, 2)),
        gradient(RandomTensor<float>({w.batch, w.out_height, w.out_width, w.out_channels}, 3)) {}
  std::array<const Tensor*, 2> Inputs(ConvDirection direction) const {
    if (direction == ConvDirection::kForward) return {&image, &filter};
    if (direction == ConvDirection::kBackwardInput) return {&filter, &gradient};
    return {&image, &gradient};
  }
  const Shape& Result(ConvDirection direction) const {
    if (direction == ConvDirection::kForward) return gradient.shape();
    return direction == ConvDirection::kBackwardInput ? image.shape() : filter.shape();
  }
};

// Fills the scratch memory with NaNs before the call.
inline Tensor Convolve(const Prepared& prepared, const Tensors& tensors, ConvDirection direction,
                       Tensor* bias = nullptr) {
  const auto inputs = tensors.Inputs(direction);
  Tensor copies[] = {*inputs[0], *inputs[1]};
  Tensor result(DType::kFloat32, tensors.Result(direction));
  AlignedBuffer scratch(std::max<size_t>(prepared.scratch_bytes, 64));
  std::memset(scratch.data(), 0xFF, scratch.size());
  std::byte* const in[] = {copies[0].data(), copies[1].data(), bias == nullptr ? nullptr : bias->data()};
  std::byte* const out[] = {result.data()};
  KernelContext context;
  context.inputs = in;
  context.outputs = out;
  context.scratch = scratch.data();
  const auto state = prepared.kernel->NewState();
  context.state = state.get();
  EXPECT_OK(prepared.kernel->Run(context));
  return result;
}

inline std::vector<double> Expected(const Window& w, const Tensors& tensors, ConvDirection direction) {
  const std::vector<double> x = AsDoubles<float>(tensors.image), f = AsDoubles<float>(tensors.filter),
                            g = AsDoubles<float>(tensors.gradient);
  std::vector<double> y(g.size(), 0), dx(x.size(), 0), df(f.size(), 0);
  for (int64_t b = 0; b < w.batch; ++b)
    for (int64_t oy = 0; oy < w.out_height; ++oy)
      for (int64_t ox = 0; ox < w.out_width; ++ox)
        for (int64_t tap = 0; tap < w.height * w.width; ++tap) {
          const int64_t iy = oy + tap / w.width - w.pad_top, ix = ox + tap % w.width - w.pad_left;
          if (iy < 0 || iy >= w.in_height || ix < 0 || ix >= w.in_width) continue;
          const int64_t in = ((b * w.in_height + iy) * w.in_width + ix) * w.in_channels;
          const int64_t out = ((b * w.out_height + oy) * w.out_width + ox) * w.out_channels;
          for (int64_t i = 0; i < w.in_channels; ++i)
            for (int64_t o = 0; o < w.out_channels; ++o) {
              const auto at_x = static_cast<size_t>(in + i), at_y = static_cast<size_t>(out + o);
              const auto at_f = static_cast<size_t>((tap * w.in_channels + i) * w.out_channels + o);
              if (direction == ConvDirection::kForward) y[at_y] += x[at_x] * f[at_f];
              if (direction == ConvDirection::kBackwardInput) dx[at_x] += g[at_y] * f[at_f];
              if (direction == ConvDirection::kBackwardFilter) df[at_f] += g[at_y] * x[at_x];
            }
        }
  return direction == ConvDirection::kForward ? y : direction == ConvDirection::kBackwardInput ? dx : df;
}

// Errors relative to float64: the largest difference over the largest expected value, and the root mean squares.
struct Error {
  double most = 0, mean = 0;
};
inline Error ErrorOf(const Tensor& actual, const std::vector<double>& expected) {
  const std::span<const float> values = actual.flat<float>();
  double squares = 0, expected_squares = 0, largest = 0;
  Error error;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(static_cast<double>(values[i]) - expected[i]);
    if (!(difference <= error.most)) error.most = difference;  // also for NaN
    squares += difference * difference;
    expected_squares += expected[i] * expected[i];
    largest = std::max(largest, std::abs(expected[i]));
  }
  error.most /= largest;
  error.mean = std::sqrt(squares / expected_squares);
  return error;
}

}  // namespace rivulet::testing
