#include "engine/kernels/cpu/convolution/portable_conv.h"

#include <algorithm>

#include "engine/kernels/cpu/product/portable_product.h"
#include "engine/program/memory_plan.h"

namespace rivulet {
namespace {

constexpr int64_t kPixels = 64;  // approximate number of output pixels whose patches are copied at once

// A patch is the elements of the image for one output pixel, in the order of the filter: [height, width, in].
template <typename T>
class PatchKernel final : public Kernel {
 public:
  PatchKernel(ConvDirection direction, const Window& window)
      : direction_(direction),
        w_(window),
        patch_(window.height * window.width * window.in_channels),
        rows_(std::min(window.out_height, std::max<int64_t>(1, kPixels / std::max<int64_t>(1, window.out_width)))) {}

  size_t scratch_bytes() const {
    return RoundUp64(static_cast<size_t>(rows_ * w_.out_width * patch_) * sizeof(T)) +
           (direction_ == ConvDirection::kBackwardInput ? static_cast<size_t>(w_.filter_elements()) * sizeof(T) : 0);
  }

  Status Run(const KernelContext& context) const override {
    const T* first = reinterpret_cast<const T*>(context.inputs[0]);
    const T* second = reinterpret_cast<const T*>(context.inputs[1]);
    T* result = reinterpret_cast<T*>(context.outputs[0]);
    T* patches = reinterpret_cast<T*>(context.scratch);
    switch (direction_) {
      case ConvDirection::kForward:
        ForEachStretch([&](int64_t image, int64_t row, int64_t rows) {
          Gather(first, image, row, rows, patches);
          PortableProduct product;
          product.m = rows * w_.out_width;
          product.n = product.b_row = product.c_row = w_.out_channels;
          product.k = product.a_row = patch_;
          RunPortableProduct(product, patches, second, result + OutOffset(image, row));
        });
        break;
      case ConvDirection::kBackwardInput: {
        T* transposed = reinterpret_cast<T*>(context.scratch + scratch_bytes()) - w_.filter_elements();
        for (int64_t i = 0; i < patch_; ++i)
          for (int64_t o = 0; o < w_.out_channels; ++o) transposed[o * patch_ + i] = first[i * w_.out_channels + o];
        std::fill_n(result, w_.in_elements(), T{0});
        ForEachStretch([&](int64_t image, int64_t row, int64_t rows) {
          PortableProduct product;
          product.m = rows * w_.out_width;
          product.n = product.b_row = product.c_row = patch_;
          product.k = product.a_row = w_.out_channels;
          RunPortableProduct(product, second + OutOffset(image, row), transposed, patches);
          Scatter(patches, image, row, rows, result);
        });
        break;
      }
      case ConvDirection::kBackwardFilter: {
        std::fill_n(result, w_.filter_elements(), T{0});
        ForEachStretch([&](int64_t image, int64_t row, int64_t rows) {
          Gather(first, image, row, rows, patches);
          PortableProduct product;
          product.m = patch_;
          product.n = product.b_row = product.c_row = w_.out_channels;
          product.k = rows * w_.out_width;
          product.a_row = 1;
          product.a_k = patch_;
          product.add = true;
          RunPortableProduct(product, patches, second + OutOffset(image, row), result);
        });
        break;
      }
    }
    return absl::OkStatus();
  }

 private:
  template <typename F>
  void ForEachStretch(F f) const {
    for (int64_t image = 0; image < w_.batch; ++image)
      for (int64_t row = 0; row < w_.out_height; row += rows_) f(image, row, std::min(rows_, w_.out_height - row));
  }
  int64_t OutOffset(int64_t image, int64_t row) const {
    return (image * w_.out_height + row) * w_.out_width * w_.out_channels;
  }

  // Calls f(offset in the image, or -1 outside, offset in the patches) for each pixel in the windows of these output
  // rows.
  template <typename F>
  void ForEachPixel(int64_t image, int64_t row, int64_t rows, F f) const {
    int64_t at = 0;
    for (int64_t y = row; y < row + rows; ++y) {
      for (int64_t x = 0; x < w_.out_width; ++x) {
        for (int64_t ky = 0; ky < w_.height; ++ky) {
          const int64_t in_y = y * w_.stride_height - w_.pad_top + ky * w_.dilation_height;
          for (int64_t kx = 0; kx < w_.width; ++kx, at += w_.in_channels) {
            const int64_t in_x = x * w_.stride_width - w_.pad_left + kx * w_.dilation_width;
            const bool inside = in_y >= 0 && in_y < w_.in_height && in_x >= 0 && in_x < w_.in_width;
            f(inside ? ((image * w_.in_height + in_y) * w_.in_width + in_x) * w_.in_channels : -1, at);
          }
        }
      }
    }
  }
  void Gather(const T* images, int64_t image, int64_t row, int64_t rows, T* patches) const {
    ForEachPixel(image, row, rows, [&](int64_t in, int64_t at) {
      if (in < 0)
        std::fill_n(patches + at, w_.in_channels, T{0});
      else
        std::copy_n(images + in, w_.in_channels, patches + at);
    });
  }
  void Scatter(const T* patches, int64_t image, int64_t row, int64_t rows, T* images) const {
    ForEachPixel(image, row, rows, [&](int64_t in, int64_t at) {
      if (in < 0) return;
      for (int64_t i = 0; i < w_.in_channels; ++i) images[in + i] += patches[at + i];
    });
  }

  ConvDirection direction_;
  Window w_;
  int64_t patch_, rows_;
};

}  // namespace

template <typename T>
std::optional<Prepared> PortableConvolution(ConvDirection direction, const Window& window) {
  if (window.groups != 1) return std::nullopt;
  auto kernel = std::make_unique<PatchKernel<T>>(direction, window);
  Prepared prepared;
  prepared.scratch_bytes = kernel->scratch_bytes();
  prepared.kernel = std::move(kernel);
  prepared.implementation = "portable patches";
  prepared.flops = 2 * window.multiply_adds();
  return prepared;
}

template std::optional<Prepared> PortableConvolution<float>(ConvDirection, const Window&);
template std::optional<Prepared> PortableConvolution<double>(ConvDirection, const Window&);

}  // namespace rivulet
