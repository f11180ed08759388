#include "engine/kernels/cpu/convolution/conv_loops.h"

#include <algorithm>

// The build's -O2 vectorises very little; these loops are written for it.
#pragma GCC optimize("O3")

namespace rivulet {
namespace {

// Calls f(input pixel, filter tap) for every tap of the window at (row, column) inside the image.
template <typename F>
void ForEachTap(const Window& w, int64_t row, int64_t column, F f) {
  for (int64_t y = 0; y < w.height; ++y) {
    const int64_t in_y = row * w.stride_height - w.pad_top + y * w.dilation_height;
    if (in_y < 0 || in_y >= w.in_height) continue;
    for (int64_t x = 0; x < w.width; ++x) {
      const int64_t in_x = column * w.stride_width - w.pad_left + x * w.dilation_width;
      if (in_x < 0 || in_x >= w.in_width) continue;
      f(in_y * w.in_width + in_x, y * w.width + x);
    }
  }
}

// Calls f(input offset, filter offset, output offset) for every pair of pixels that a tap connects, and each group of
// channels; offsets in elements.
template <typename F>
void ForEachPair(const Window& w, F f) {
  const int64_t in_group = w.group_in(), out_group = w.group_out();
  for (int64_t image = 0; image < w.batch; ++image) {
    for (int64_t row = 0; row < w.out_height; ++row) {
      for (int64_t column = 0; column < w.out_width; ++column) {
        const int64_t out = ((image * w.out_height + row) * w.out_width + column) * w.out_channels;
        ForEachTap(w, row, column, [&](int64_t pixel, int64_t tap) {
          const int64_t in = (image * w.in_height * w.in_width + pixel) * w.in_channels;
          const int64_t filter = tap * in_group * w.out_channels;
          for (int64_t g = 0; g < w.groups; ++g) f(in + g * in_group, filter + g * out_group, out + g * out_group);
        });
      }
    }
  }
}

template <typename T>
class ConvLoops final : public Kernel {
 public:
  ConvLoops(ConvDirection direction, const Window& window) : direction_(direction), w_(window) {}

  Status Run(const KernelContext& context) const override {
    const T* first = reinterpret_cast<const T*>(context.inputs[0]);
    const T* second = reinterpret_cast<const T*>(context.inputs[1]);
    T* result = reinterpret_cast<T*>(context.outputs[0]);
    const int64_t in_group = w_.group_in(), out_group = w_.group_out(), filter_row = w_.out_channels;
    switch (direction_) {
      case ConvDirection::kForward:
        std::fill_n(result, w_.out_elements(), T{0});
        ForEachPair(w_, [&](int64_t in, int64_t filter, int64_t out) {
          for (int64_t i = 0; i < in_group; ++i) {
            const T x = first[in + i];
            const T* weights = second + filter + i * filter_row;
            T* sums = result + out;
#pragma GCC ivdep
            for (int64_t o = 0; o < out_group; ++o) sums[o] += x * weights[o];
          }
        });
        break;
      case ConvDirection::kBackwardInput:
        std::fill_n(result, w_.in_elements(), T{0});
        ForEachPair(w_, [&](int64_t in, int64_t filter, int64_t out) {
          for (int64_t i = 0; i < in_group; ++i) {
            const T* weights = first + filter + i * filter_row;
            T sum{0};
            for (int64_t o = 0; o < out_group; ++o) sum += second[out + o] * weights[o];
            result[in + i] += sum;
          }
        });
        break;
      case ConvDirection::kBackwardFilter:
        std::fill_n(result, w_.filter_elements(), T{0});
        ForEachPair(w_, [&](int64_t in, int64_t filter, int64_t out) {
          for (int64_t i = 0; i < in_group; ++i) {
            const T x = first[in + i];
            const T* gradient = second + out;
            T* weights = result + filter + i * filter_row;
#pragma GCC ivdep
            for (int64_t o = 0; o < out_group; ++o) weights[o] += x * gradient[o];
          }
        });
        break;
    }
    return {};
  }

 private:
  ConvDirection direction_;
  Window w_;
};

}  // namespace

template <typename T>
Prepared ConvolutionByLoops(ConvDirection direction, const Window& window) {
  Prepared prepared;
  prepared.kernel = std::make_unique<ConvLoops<T>>(direction, window);
  prepared.implementation = "loops";
  prepared.flops = 2 * window.multiply_adds();
  return prepared;
}

template Prepared ConvolutionByLoops<float>(ConvDirection, const Window&);
template Prepared ConvolutionByLoops<double>(ConvDirection, const Window&);

}  // namespace rivulet
