#include "engine/kernels/cpu/convolution/batch_interleaved_conv.h"

#include <algorithm>
#include <utility>

#include "engine/kernels/cpu/convolution/epilogue.h"
#include "engine/kernels/cpu/convolution/rotated_filter.h"
#include "engine/kernels/cpu/vector/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/convolution/batch_interleaved_conv.cc"
// clang-format off
#include "hwy/foreach_target.h"  // first: it includes this file once per target
#include "hwy/highway.h"
#include "engine/kernels/cpu/convolution/batch_interleaved-inl.h"
#include "engine/kernels/cpu/vector/lane_sums-inl.h"
// clang-format on

#ifndef RIVULET_BATCH_INTERLEAVED_CONV_ONCE
#define RIVULET_BATCH_INTERLEAVED_CONV_ONCE
namespace rivulet {
// A convolution with stride 1; the gradient of an input is one too, with the rotated filter.
struct InterleavedShape {
  int64_t batch, height, width, channels;  // of the convolved images
  int64_t pad_top, pad_left;
  int64_t out_height, out_width, out_channels;
  int64_t window_height, window_width;

  // Rows of interleaved images have zeros on both sides, within the reach of windows.
  int64_t row_pixels() const { return std::max(pad_left + width, out_width - 1 + window_width); }
  int64_t row() const { return row_pixels() * channels; }
  int64_t run() const { return window_width * channels; }  // adjacent elements of a row of a window
  int64_t image() const { return height * width * channels; }
  int64_t output() const { return out_height * out_width * out_channels; }
  int64_t filter() const { return window_height * run() * out_channels; }
  // Number of rows of outputs that are deinterleaved together, in whole squares if a few rows fill them, while they are
  // in the nearest cache.
  int64_t rows_at_once() const {
    constexpr int64_t kSide = 16, kMostElements = 512;
    const int64_t elements = out_width * out_channels;
    int64_t rows = 1;
    while (rows * elements % kSide != 0 && (rows + 1) * elements <= kMostElements) ++rows;
    return std::min(rows, out_height);
  }
};

// The scratch memory, in elements: interleaved images, interleaved outputs or their gradients, sums of a filter's
// gradient. For the widest target.
struct InterleavedScratch {
  InterleavedScratch(const InterleavedShape& s, bool of_filter)
      : out(s.height * s.row() * kMostInterleaved),
        sums(out + (of_filter ? s.output() : s.rows_at_once() * s.out_width * s.out_channels) * kMostInterleaved),
        end(sums + (of_filter ? (s.filter() + kMostInterleaved) * kMostInterleaved : 0)) {}
  int64_t out, sums, end;
};
}  // namespace rivulet
#endif

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Interleaves all of an image's rows; the padding beside them is already zero.
void InterleaveImages(const InterleavedShape& s, const float* from, int64_t images, float* to) {
  if (s.row_pixels() == s.width) return Interleave(from, s.image(), images, s.image(), to);
  for (int64_t y = 0; y < s.height; ++y)
    Interleave(from + y * s.width * s.channels, s.image(), images, s.width * s.channels,
               to + (y * s.row() + s.pad_left * s.channels) * kInterleaved);
}

struct InterleavedTaps {
  int64_t rows, run;  // rows of the window inside the image, and elements per row
};

// P pixels of a row by Q filters: sums over taps.rows rows of taps.run elements each. `in` and `filter` point to the
// first of them.
template <int P, int Q>
void InterleavedPixels(const InterleavedShape& s, const InterleavedTaps& taps, const SumFinish& finish,
                       const float* HWY_RESTRICT in, const float* HWY_RESTRICT filter, int64_t first_filter,
                       float* HWY_RESTRICT out) {
  const InterleavedD d;
  InterleavedV sum[P][Q];
  RIVULET_UNROLL
  for (int p = 0; p < P; ++p) {
    RIVULET_UNROLL
    for (int q = 0; q < Q; ++q) sum[p][q] = hn::Zero(d);
  }
  const int64_t pixel = s.channels * kInterleaved;
  for (int64_t y = 0; y < taps.rows; ++y) {
    const float* at = in + y * s.row() * kInterleaved;
    const float* weight = filter + y * s.run() * s.out_channels;
    for (int64_t i = 0; i < taps.run; ++i, at += kInterleaved, weight += s.out_channels) {
      InterleavedV x[P];
      RIVULET_UNROLL
      for (int p = 0; p < P; ++p) x[p] = hn::Load(d, at + p * pixel);
      RIVULET_UNROLL
      for (int q = 0; q < Q; ++q) {
        const InterleavedV w = hn::Set(d, weight[q]);
        RIVULET_UNROLL
        for (int p = 0; p < P; ++p) sum[p][q] = hn::MulAdd(x[p], w, sum[p][q]);
      }
    }
  }
  const InterleavedV zero = hn::Zero(d), least = hn::Set(d, finish.least), most = hn::Set(d, finish.most);
  RIVULET_UNROLL
  for (int q = 0; q < Q; ++q) {
    RIVULET_UNROLL
    for (int p = 0; p < P; ++p) {
      InterleavedV v = sum[p][q];
      if (finish.bias != nullptr) {
        v = hn::Add(v, hn::Set(d, finish.bias[first_filter + q]));
        v = hn::IfThenElse(hn::Lt(v, least), zero, v);
        v = hn::IfThenElse(hn::Gt(v, most), most, v);
      }
      hn::Store(v, d, out + (p * s.out_channels + q) * kInterleaved);
    }
  }
}

#if HWY_TARGET <= HWY_AVX3
constexpr int kInterleavedPixels = 4, kInterleavedFilters = 6, kInterleavedSums = 4;
#else
constexpr int kInterleavedPixels = 3, kInterleavedFilters = 4, kInterleavedSums = 3;  // 12 sums of 16 registers
#endif

using InterleavedPixelsFn = void (*)(const InterleavedShape&, const InterleavedTaps&, const SumFinish&, const float*,
                                     const float*, int64_t, float*);
template <int... I>
InterleavedPixelsFn InterleavedPixelsFor(int64_t pixels, int64_t filters, std::integer_sequence<int, I...>) {
  static constexpr InterleavedPixelsFn kTable[] = {
      &InterleavedPixels<I / kInterleavedFilters + 1, I % kInterleavedFilters + 1>...};
  return kTable[(pixels - 1) * kInterleavedFilters + filters - 1];
}

HWY_INLINE int64_t InterleavedShare(int64_t all, int64_t most) {
  const int64_t blocks = (all + most - 1) / most;
  return (all + blocks - 1) / blocks;
}

void InterleavedForward(const InterleavedShape& s, const SumFinish& finish, const float* images, const float* filter,
                        float* result, float* scratch) {
  const InterleavedScratch place(s, /*of_filter=*/false);
  float *const interleaved = scratch, *const out = scratch + place.out;
  std::fill_n(interleaved, place.out, 0.0f);
  const int64_t at_once = s.rows_at_once(), row = s.out_width * s.out_channels;
  const int64_t pixels = InterleavedShare(s.out_width, kInterleavedPixels),
                filters = InterleavedShare(s.out_channels, kInterleavedFilters);
  constexpr auto kAll = std::make_integer_sequence<int, kInterleavedPixels * kInterleavedFilters>();
  for (int64_t first = 0; first < s.batch; first += kInterleaved) {
    const int64_t count = std::min(kInterleaved, s.batch - first);
    InterleaveImages(s, images + first * s.image(), count, interleaved);
    for (int64_t y = 0; y < s.out_height; ++y) {
      const int64_t top = y - s.pad_top, from = std::max<int64_t>(0, -top);
      const int64_t rows = std::max<int64_t>(0, std::min(s.window_height, s.height - top) - from);
      for (int64_t x = 0; x < s.out_width; x += pixels) {
        const int64_t across = std::min(pixels, s.out_width - x);
        const int64_t left = std::max<int64_t>(0, s.pad_left - (x + across - 1));
        const int64_t columns = std::max<int64_t>(0, std::min(s.window_width, s.pad_left + s.width - x) - left);
        const InterleavedTaps taps = {.rows = columns > 0 ? rows : 0, .run = columns * s.channels};
        const float* const at = interleaved + ((top + from) * s.row() + (x + left) * s.channels) * kInterleaved;
        const float* const weights = filter + (from * s.run() + left * s.channels) * s.out_channels;
        for (int64_t q = 0; q < s.out_channels; q += filters)
          InterleavedPixelsFor(across, std::min(filters, s.out_channels - q), kAll)(
              s, taps, finish, at, weights + q, q,
              out + ((y % at_once * s.out_width + x) * s.out_channels + q) * kInterleaved);
      }
      if ((y + 1) % at_once != 0 && y + 1 < s.out_height) continue;
      const int64_t begin = y / at_once * at_once;
      Deinterleave(out, (y + 1 - begin) * row, count, result + first * s.output() + begin * row, s.output());
    }
  }
}

// Adds a group of images' contributions to E elements of a window's row by Q filters: `in` is the first element of the
// first window, for `rows` rows of outputs.
template <int E, int Q>
void InterleavedSums(const InterleavedShape& s, const float* HWY_RESTRICT in, const float* HWY_RESTRICT gradient,
                     int64_t rows, bool add, float* HWY_RESTRICT sums) {
  const InterleavedD d;
  InterleavedV sum[E][Q];
  RIVULET_UNROLL
  for (int e = 0; e < E; ++e) {
    RIVULET_UNROLL
    for (int q = 0; q < Q; ++q)
      sum[e][q] = add ? hn::Load(d, sums + (e * s.out_channels + q) * kInterleaved) : hn::Zero(d);
  }
  const int64_t pixel = s.channels * kInterleaved, out_pixel = s.out_channels * kInterleaved;
  for (int64_t y = 0; y < rows; ++y) {
    const float* at = in + y * s.row() * kInterleaved;
    for (int64_t x = 0; x < s.out_width; ++x, at += pixel, gradient += out_pixel) {
      InterleavedV dy[Q];
      RIVULET_UNROLL
      for (int q = 0; q < Q; ++q) dy[q] = hn::Load(d, gradient + q * kInterleaved);
      RIVULET_UNROLL
      for (int e = 0; e < E; ++e) {
        const InterleavedV element = hn::Load(d, at + e * kInterleaved);
        RIVULET_UNROLL
        for (int q = 0; q < Q; ++q) sum[e][q] = hn::MulAdd(element, dy[q], sum[e][q]);
      }
    }
  }
  RIVULET_UNROLL
  for (int e = 0; e < E; ++e) {
    RIVULET_UNROLL
    for (int q = 0; q < Q; ++q) hn::Store(sum[e][q], d, sums + (e * s.out_channels + q) * kInterleaved);
  }
}

using InterleavedSumsFn = void (*)(const InterleavedShape&, const float*, const float*, int64_t, bool, float*);
template <int... I>
InterleavedSumsFn InterleavedSumsFor(int64_t elements, int64_t filters, std::integer_sequence<int, I...>) {
  static constexpr InterleavedSumsFn kTable[] = {
      &InterleavedSums<I / kInterleavedSums + 1, I % kInterleavedSums + 1>...};
  return kTable[(elements - 1) * kInterleavedSums + filters - 1];
}

void InterleavedFilter(const InterleavedShape& s, const float* images, const float* gradient, float* result,
                       float* scratch) {
  const InterleavedScratch place(s, /*of_filter=*/true);
  float *const interleaved = scratch, *const of_outputs = scratch + place.out, *const sums = scratch + place.sums;
  std::fill_n(interleaved, place.out, 0.0f);
  const int64_t elements = InterleavedShare(s.run(), kInterleavedFilters),
                filters = InterleavedShare(s.out_channels, kInterleavedSums);
  constexpr auto kAll = std::make_integer_sequence<int, kInterleavedFilters * kInterleavedSums>();
  for (int64_t first = 0; first < s.batch; first += kInterleaved) {
    const int64_t count = std::min(kInterleaved, s.batch - first);
    InterleaveImages(s, images + first * s.image(), count, interleaved);
    Interleave(gradient + first * s.output(), s.output(), count, s.output(), of_outputs);
    for (int64_t q = 0; q < s.out_channels; q += filters) {
      for (int64_t tap = 0; tap < s.window_height; ++tap) {
        const int64_t top = tap - s.pad_top, from = std::max<int64_t>(0, -top);
        const int64_t rows = std::max<int64_t>(0, std::min(s.out_height, s.height - top) - from);
        for (int64_t e = 0; e < s.run(); e += elements) {
          InterleavedSumsFor(std::min(elements, s.run() - e), std::min(filters, s.out_channels - q), kAll)(
              s, interleaved + ((top + from) * s.row() + e) * kInterleaved,
              of_outputs + (from * s.out_width * s.out_channels + q) * kInterleaved, rows, first > 0,
              sums + ((tap * s.run() + e) * s.out_channels + q) * kInterleaved);
        }
      }
    }
  }
  const InterleavedD d;
  std::fill_n(sums + s.filter() * kInterleaved, kInterleaved * kInterleaved, 0.0f);
  HWY_ALIGN float last[kInterleaved];
  for (int64_t i = 0; i < s.filter(); i += kInterleaved) {
    hn::Store(LaneSumsOf(d, sums + i * kInterleaved), d, last);
    std::copy_n(last, std::min(kInterleaved, s.filter() - i), result + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {
namespace {

HWY_EXPORT(InterleavedForward);
HWY_EXPORT(InterleavedFilter);

class InterleavedKernel final : public Kernel {
 public:
  InterleavedKernel(ConvDirection direction, const InterleavedShape& shape, const FusedOps& fused)
      : direction_(direction),
        s_(shape),
        fused_(fused),
        elements_(InterleavedScratch(shape, direction == ConvDirection::kBackwardFilter).end) {}

  size_t scratch_bytes() const {
    const int64_t rotated = direction_ == ConvDirection::kBackwardInput ? s_.filter() : 0;
    return static_cast<size_t>(elements_ + rotated) * sizeof(float);
  }

  Status Run(const KernelContext& context) const override {
    const float* first = reinterpret_cast<const float*>(context.inputs[0]);
    const float* second = reinterpret_cast<const float*>(context.inputs[1]);
    float* result = reinterpret_cast<float*>(context.outputs[0]);
    float* scratch = reinterpret_cast<float*>(context.scratch);
    switch (direction_) {
      case ConvDirection::kForward:
        HWY_DYNAMIC_DISPATCH(InterleavedForward)
        (s_, SumFinish::Of(fused_, context), first, second, result, scratch);
        break;
      case ConvDirection::kBackwardFilter:
        HWY_DYNAMIC_DISPATCH(InterleavedFilter)(s_, first, second, result, scratch);
        break;
      case ConvDirection::kBackwardInput: {
        float* const rotated = scratch + elements_;
        RotateFilter(first, s_.window_height * s_.window_width, s_.out_channels, s_.channels, 1, rotated);
        HWY_DYNAMIC_DISPATCH(InterleavedForward)(s_, SumFinish(), second, rotated, result, scratch);
        break;
      }
    }
    return absl::OkStatus();
  }

 private:
  ConvDirection direction_;
  InterleavedShape s_;
  FusedOps fused_;
  int64_t elements_;
};

}  // namespace

std::optional<Prepared> BatchInterleavedConvolution(ConvDirection direction, const Window& w, const FusedOps& fused) {
  if (w.groups != 1 || w.stride_height != 1 || w.stride_width != 1 || w.dilation_height != 1 || w.dilation_width != 1 ||
      w.in_elements() == 0 || w.out_elements() == 0 || w.filter_elements() == 0)
    return std::nullopt;
  const Window c = ConvolvedWindow(direction, w);
  if (c.pad_top < 0 || c.pad_left < 0) return std::nullopt;
  const InterleavedShape s{c.batch,      c.in_height, c.in_width,     c.in_channels, c.pad_top, c.pad_left,
                           c.out_height, c.out_width, c.out_channels, c.height,      c.width};
  auto kernel = std::make_unique<InterleavedKernel>(direction, s, fused);
  Prepared prepared;
  prepared.scratch_bytes = kernel->scratch_bytes();
  prepared.kernel = std::move(kernel);
  prepared.implementation = "hwy batch-interleaved";
  prepared.flops = 2 * w.multiply_adds();
  return WithSumFinish(std::move(prepared), fused, w.batch * w.out_height * w.out_width, w.out_channels);
}

}  // namespace rivulet
#endif
