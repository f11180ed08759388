#include "engine/kernels/cpu/abreast_conv.h"

#include <algorithm>
#include <utility>

#include "engine/kernels/cpu/epilogue.h"
#include "engine/kernels/cpu/turned_convolution.h"
#include "engine/kernels/cpu/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/abreast_conv.cc"
// clang-format off
#include "hwy/foreach_target.h"  // first: it includes this file once per target
#include "hwy/highway.h"
#include "engine/kernels/cpu/abreast-inl.h"
#include "engine/kernels/cpu/lane_sums-inl.h"
// clang-format on

#ifndef RIVULET_ABREAST_CONV_ONCE
#define RIVULET_ABREAST_CONV_ONCE
namespace rivulet {
// A convolution of stride 1; the gradient of an input is one too, under the turned filter.
struct AbreastShape {
  int64_t batch, height, width, channels;  // of what is convolved
  int64_t pad_top, pad_left;
  int64_t out_height, out_width, out_channels;
  int64_t window_height, window_width;

  // Rows of turned images have zeros on both sides, as far as windows reach.
  int64_t row_pixels() const { return std::max(pad_left + width, out_width - 1 + window_width); }
  int64_t row() const { return row_pixels() * channels; }
  int64_t run() const { return window_width * channels; }  // of a window: what lies side by side in a row
  int64_t image() const { return height * width * channels; }
  int64_t output() const { return out_height * out_width * out_channels; }
  int64_t filter() const { return window_height * run() * out_channels; }
  // Rows of outputs that are turned back together, in whole squares where a few rows make them: they are in the nearest
  // cache still.
  int64_t rows_at_once() const {
    constexpr int64_t kSide = 16, kMostElements = 512;
    const int64_t elements = out_width * out_channels;
    int64_t rows = 1;
    while (rows * elements % kSide != 0 && (rows + 1) * elements <= kMostElements) ++rows;
    return std::min(rows, out_height);
  }
};

// The scratch memory, in elements: turned images, turned outputs or their gradients, sums of a filter's gradient. Of
// the widest target.
struct AbreastScratch {
  AbreastScratch(const AbreastShape& s, bool of_filter)
      : out(s.height * s.row() * kMostAbreast),
        sums(out + (of_filter ? s.output() : s.rows_at_once() * s.out_width * s.out_channels) * kMostAbreast),
        end(sums + (of_filter ? (s.filter() + kMostAbreast) * kMostAbreast : 0)) {}
  int64_t out, sums, end;
};
}  // namespace rivulet
#endif

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// All of an image's rows; what is beside them are zeros already.
void TurnImages(const AbreastShape& s, const float* from, int64_t images, float* to) {
  if (s.row_pixels() == s.width) return TurnAbreast(from, s.image(), images, s.image(), to);
  for (int64_t y = 0; y < s.height; ++y)
    TurnAbreast(from + y * s.width * s.channels, s.image(), images, s.width * s.channels,
                to + (y * s.row() + s.pad_left * s.channels) * kAbreast);
}

struct AbreastTaps {
  int64_t rows, run;  // of the window that are met, and of each row the elements
};

// P pixels of a row by Q filters: sums over taps.rows rows of taps.run elements each. `in` and `filter` begin at the
// first of them.
template <int P, int Q>
void AbreastPixels(const AbreastShape& s, const AbreastTaps& taps, const SumFinish& finish,
                   const float* HWY_RESTRICT in, const float* HWY_RESTRICT filter, int64_t first_filter,
                   float* HWY_RESTRICT out) {
  const AbreastD d;
  AbreastV sum[P][Q];
  RIVULET_UNROLL
  for (int p = 0; p < P; ++p) {
    RIVULET_UNROLL
    for (int q = 0; q < Q; ++q) sum[p][q] = hn::Zero(d);
  }
  const int64_t pixel = s.channels * kAbreast;
  for (int64_t y = 0; y < taps.rows; ++y) {
    const float* at = in + y * s.row() * kAbreast;
    const float* weight = filter + y * s.run() * s.out_channels;
    for (int64_t i = 0; i < taps.run; ++i, at += kAbreast, weight += s.out_channels) {
      AbreastV x[P];
      RIVULET_UNROLL
      for (int p = 0; p < P; ++p) x[p] = hn::Load(d, at + p * pixel);
      RIVULET_UNROLL
      for (int q = 0; q < Q; ++q) {
        const AbreastV w = hn::Set(d, weight[q]);
        RIVULET_UNROLL
        for (int p = 0; p < P; ++p) sum[p][q] = hn::MulAdd(x[p], w, sum[p][q]);
      }
    }
  }
  const AbreastV zero = hn::Zero(d), least = hn::Set(d, finish.least), most = hn::Set(d, finish.most);
  RIVULET_UNROLL
  for (int q = 0; q < Q; ++q) {
    RIVULET_UNROLL
    for (int p = 0; p < P; ++p) {
      AbreastV v = sum[p][q];
      if (finish.bias != nullptr) {
        v = hn::Add(v, hn::Set(d, finish.bias[first_filter + q]));
        v = hn::IfThenElse(hn::Lt(v, least), zero, v);
        v = hn::IfThenElse(hn::Gt(v, most), most, v);
      }
      hn::Store(v, d, out + (p * s.out_channels + q) * kAbreast);
    }
  }
}

#if HWY_TARGET <= HWY_AVX3
constexpr int kAbreastPixels = 4, kAbreastFilters = 6, kAbreastSums = 4;
#else
constexpr int kAbreastPixels = 3, kAbreastFilters = 4, kAbreastSums = 3;  // 12 sums of 16 registers
#endif

using AbreastPixelsFn = void (*)(const AbreastShape&, const AbreastTaps&, const SumFinish&, const float*, const float*,
                                 int64_t, float*);
template <int... I>
AbreastPixelsFn AbreastPixelsFor(int64_t pixels, int64_t filters, std::integer_sequence<int, I...>) {
  static constexpr AbreastPixelsFn kTable[] = {&AbreastPixels<I / kAbreastFilters + 1, I % kAbreastFilters + 1>...};
  return kTable[(pixels - 1) * kAbreastFilters + filters - 1];
}

HWY_INLINE int64_t AbreastShare(int64_t all, int64_t most) {
  const int64_t blocks = (all + most - 1) / most;
  return (all + blocks - 1) / blocks;
}

void AbreastForward(const AbreastShape& s, const SumFinish& finish, const float* images, const float* filter,
                    float* result, float* scratch) {
  const AbreastScratch place(s, /*of_filter=*/false);
  float *const turned = scratch, *const out = scratch + place.out;
  std::fill_n(turned, place.out, 0.0f);
  const int64_t at_once = s.rows_at_once(), row = s.out_width * s.out_channels;
  const int64_t pixels = AbreastShare(s.out_width, kAbreastPixels),
                filters = AbreastShare(s.out_channels, kAbreastFilters);
  constexpr auto kAll = std::make_integer_sequence<int, kAbreastPixels * kAbreastFilters>();
  for (int64_t first = 0; first < s.batch; first += kAbreast) {
    const int64_t count = std::min(kAbreast, s.batch - first);
    TurnImages(s, images + first * s.image(), count, turned);
    for (int64_t y = 0; y < s.out_height; ++y) {
      const int64_t top = y - s.pad_top, from = std::max<int64_t>(0, -top);
      const int64_t rows = std::max<int64_t>(0, std::min(s.window_height, s.height - top) - from);
      for (int64_t x = 0; x < s.out_width; x += pixels) {
        const int64_t across = std::min(pixels, s.out_width - x);
        const int64_t left = std::max<int64_t>(0, s.pad_left - (x + across - 1));
        const int64_t columns = std::max<int64_t>(0, std::min(s.window_width, s.pad_left + s.width - x) - left);
        const AbreastTaps taps = {.rows = columns > 0 ? rows : 0, .run = columns * s.channels};
        const float* const at = turned + ((top + from) * s.row() + (x + left) * s.channels) * kAbreast;
        const float* const weights = filter + (from * s.run() + left * s.channels) * s.out_channels;
        for (int64_t q = 0; q < s.out_channels; q += filters)
          AbreastPixelsFor(across, std::min(filters, s.out_channels - q), kAll)(
              s, taps, finish, at, weights + q, q,
              out + ((y % at_once * s.out_width + x) * s.out_channels + q) * kAbreast);
      }
      if ((y + 1) % at_once != 0 && y + 1 < s.out_height) continue;
      const int64_t begin = y / at_once * at_once;
      TurnBack(out, (y + 1 - begin) * row, count, result + first * s.output() + begin * row, s.output());
    }
  }
}

// Adds what a group of images gives to E elements of a window's row by Q filters: `in` is the first element of the
// first window, of `rows` rows of outputs.
template <int E, int Q>
void AbreastSums(const AbreastShape& s, const float* HWY_RESTRICT in, const float* HWY_RESTRICT gradient, int64_t rows,
                 bool add, float* HWY_RESTRICT sums) {
  const AbreastD d;
  AbreastV sum[E][Q];
  RIVULET_UNROLL
  for (int e = 0; e < E; ++e) {
    RIVULET_UNROLL
    for (int q = 0; q < Q; ++q) sum[e][q] = add ? hn::Load(d, sums + (e * s.out_channels + q) * kAbreast) : hn::Zero(d);
  }
  const int64_t pixel = s.channels * kAbreast, out_pixel = s.out_channels * kAbreast;
  for (int64_t y = 0; y < rows; ++y) {
    const float* at = in + y * s.row() * kAbreast;
    for (int64_t x = 0; x < s.out_width; ++x, at += pixel, gradient += out_pixel) {
      AbreastV dy[Q];
      RIVULET_UNROLL
      for (int q = 0; q < Q; ++q) dy[q] = hn::Load(d, gradient + q * kAbreast);
      RIVULET_UNROLL
      for (int e = 0; e < E; ++e) {
        const AbreastV element = hn::Load(d, at + e * kAbreast);
        RIVULET_UNROLL
        for (int q = 0; q < Q; ++q) sum[e][q] = hn::MulAdd(element, dy[q], sum[e][q]);
      }
    }
  }
  RIVULET_UNROLL
  for (int e = 0; e < E; ++e) {
    RIVULET_UNROLL
    for (int q = 0; q < Q; ++q) hn::Store(sum[e][q], d, sums + (e * s.out_channels + q) * kAbreast);
  }
}

using AbreastSumsFn = void (*)(const AbreastShape&, const float*, const float*, int64_t, bool, float*);
template <int... I>
AbreastSumsFn AbreastSumsFor(int64_t elements, int64_t filters, std::integer_sequence<int, I...>) {
  static constexpr AbreastSumsFn kTable[] = {&AbreastSums<I / kAbreastSums + 1, I % kAbreastSums + 1>...};
  return kTable[(elements - 1) * kAbreastSums + filters - 1];
}

void AbreastFilter(const AbreastShape& s, const float* images, const float* gradient, float* result, float* scratch) {
  const AbreastScratch place(s, /*of_filter=*/true);
  float *const turned = scratch, *const of_outputs = scratch + place.out, *const sums = scratch + place.sums;
  std::fill_n(turned, place.out, 0.0f);
  const int64_t elements = AbreastShare(s.run(), kAbreastFilters), filters = AbreastShare(s.out_channels, kAbreastSums);
  constexpr auto kAll = std::make_integer_sequence<int, kAbreastFilters * kAbreastSums>();
  for (int64_t first = 0; first < s.batch; first += kAbreast) {
    const int64_t count = std::min(kAbreast, s.batch - first);
    TurnImages(s, images + first * s.image(), count, turned);
    TurnAbreast(gradient + first * s.output(), s.output(), count, s.output(), of_outputs);
    for (int64_t q = 0; q < s.out_channels; q += filters) {
      for (int64_t tap = 0; tap < s.window_height; ++tap) {
        const int64_t top = tap - s.pad_top, from = std::max<int64_t>(0, -top);
        const int64_t rows = std::max<int64_t>(0, std::min(s.out_height, s.height - top) - from);
        for (int64_t e = 0; e < s.run(); e += elements) {
          AbreastSumsFor(std::min(elements, s.run() - e), std::min(filters, s.out_channels - q), kAll)(
              s, turned + ((top + from) * s.row() + e) * kAbreast,
              of_outputs + (from * s.out_width * s.out_channels + q) * kAbreast, rows, first > 0,
              sums + ((tap * s.run() + e) * s.out_channels + q) * kAbreast);
        }
      }
    }
  }
  const AbreastD d;
  std::fill_n(sums + s.filter() * kAbreast, kAbreast * kAbreast, 0.0f);
  HWY_ALIGN float last[kAbreast];
  for (int64_t i = 0; i < s.filter(); i += kAbreast) {
    hn::Store(LaneSumsOf(d, sums + i * kAbreast), d, last);
    std::copy_n(last, std::min(kAbreast, s.filter() - i), result + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {
namespace {

HWY_EXPORT(AbreastForward);
HWY_EXPORT(AbreastFilter);

class AbreastKernel final : public Kernel {
 public:
  AbreastKernel(ConvDirection direction, const AbreastShape& shape, const FusedOps& fused)
      : direction_(direction),
        s_(shape),
        fused_(fused),
        elements_(AbreastScratch(shape, direction == ConvDirection::kBackwardFilter).end) {}

  size_t scratch_bytes() const {
    const int64_t turned = direction_ == ConvDirection::kBackwardInput ? s_.filter() : 0;
    return static_cast<size_t>(elements_ + turned) * sizeof(float);
  }

  Status Run(const KernelContext& context) const override {
    const float* first = reinterpret_cast<const float*>(context.inputs[0]);
    const float* second = reinterpret_cast<const float*>(context.inputs[1]);
    float* result = reinterpret_cast<float*>(context.outputs[0]);
    float* scratch = reinterpret_cast<float*>(context.scratch);
    switch (direction_) {
      case ConvDirection::kForward:
        HWY_DYNAMIC_DISPATCH(AbreastForward)
        (s_, SumFinish::Of(fused_, context), first, second, result, scratch);
        break;
      case ConvDirection::kBackwardFilter:
        HWY_DYNAMIC_DISPATCH(AbreastFilter)(s_, first, second, result, scratch);
        break;
      case ConvDirection::kBackwardInput: {
        float* const turned = scratch + elements_;
        TurnFilter(first, s_.window_height * s_.window_width, s_.out_channels, s_.channels, 1, turned);
        HWY_DYNAMIC_DISPATCH(AbreastForward)(s_, SumFinish(), second, turned, result, scratch);
        break;
      }
    }
    return absl::OkStatus();
  }

 private:
  ConvDirection direction_;
  AbreastShape s_;
  FusedOps fused_;
  int64_t elements_;
};

}  // namespace

std::optional<Prepared> AnyAbreastConvolution(ConvDirection direction, const Window& w, const FusedOps& fused) {
  if (w.groups != 1 || w.stride_height != 1 || w.stride_width != 1 || w.dilation_height != 1 || w.dilation_width != 1 ||
      w.in_elements() == 0 || w.out_elements() == 0 || w.filter_elements() == 0)
    return std::nullopt;
  const Window c = ConvolvedWindow(direction, w);
  if (c.pad_top < 0 || c.pad_left < 0) return std::nullopt;
  const AbreastShape s{c.batch,      c.in_height, c.in_width,     c.in_channels, c.pad_top, c.pad_left,
                       c.out_height, c.out_width, c.out_channels, c.height,      c.width};
  auto kernel = std::make_unique<AbreastKernel>(direction, s, fused);
  Prepared prepared;
  prepared.scratch_bytes = kernel->scratch_bytes();
  prepared.kernel = std::move(kernel);
  prepared.implementation = "hwy abreast";
  prepared.flops = 2 * w.multiply_adds();
  return WithSumFinish(std::move(prepared), fused, w.batch * w.out_height * w.out_width, w.out_channels);
}

std::optional<Prepared> AbreastConvolution(ConvDirection direction, const Window& w, const FusedOps& fused) {
  constexpr int64_t kFewestImages = 32, kFewIn = 6, kFewOut = 16, kFewestTaps = 9;
  // Whatever this machine's vectors hold: the choice must not depend on it.
  const int64_t places = (w.batch + kMostAbreast - 1) / kMostAbreast * kMostAbreast;
  if (w.batch < kFewestImages || w.batch * 4 < places * 3 || w.in_channels > kFewIn || w.out_channels > kFewOut ||
      w.height * w.width < kFewestTaps)
    return std::nullopt;
  // Of more channels a window's row is long enough for those who sum by vectors of filters.
  if (direction == ConvDirection::kBackwardFilter && w.in_channels > 1) return std::nullopt;
  // Turned images and outputs must stay near.
  constexpr int64_t kNearElements = int64_t{1} << 18;
  if ((w.in_elements() + w.out_elements()) / w.batch * kMostAbreast > kNearElements) return std::nullopt;
  return AnyAbreastConvolution(direction, w, fused);
}

}  // namespace rivulet
#endif
