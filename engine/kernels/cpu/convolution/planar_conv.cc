#include "engine/kernels/cpu/convolution/planar_conv.h"

#include <algorithm>
#include <cstring>

#include "engine/kernels/cpu/convolution/epilogue.h"
#include "engine/kernels/cpu/convolution/rotated_filter.h"
#include "engine/kernels/cpu/vector/unroll.h"
#include "engine/program/memory_plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/convolution/planar_conv.cc"
// clang-format off
#include "hwy/foreach_target.h"  // first: it includes this file once per target
#include "hwy/highway.h"
// clang-format on

#ifndef RIVULET_PLANAR_CONV_ONCE
#define RIVULET_PLANAR_CONV_ONCE
namespace rivulet {
// A convolution with stride 1; the gradient of an input is one too, with the rotated filter.
struct PlanarShape {
  int64_t batch, height, width, channels;  // of the convolved image
  int64_t pad_top, pad_left;
  int64_t out_height, out_width, out_channels;
  int64_t window_height, window_width, dilation_height, dilation_width;
  int64_t padded_height, line;  // of a plane; a line has room for whole vectors

  int64_t plane() const { return padded_height * line; }
  int64_t filled_rows() const { return std::min(height, padded_height - pad_top); }  // of a plane, without padding
  size_t planes_bytes() const { return RoundUp64(static_cast<size_t>(channels * plane()) * sizeof(float)); }
};
constexpr int64_t kMostFew = 8;  // channels of the result, at most

}  // namespace rivulet
#endif

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Interleaves the N channels of each pixel, from a vector of pixels per channel.
template <int N, class D, class V>
HWY_INLINE void Interleave(D d, const V (&channels)[N], float* pixels) {
  constexpr size_t kLanes = hn::MaxLanes(D());
  if constexpr (N == 1 || kLanes == 1) {
    RIVULET_UNROLL
    for (int n = 0; n < N; ++n) hn::StoreU(channels[n], d, pixels + n);
  } else if constexpr (N == 2) {
    hn::StoreInterleaved2(channels[0], channels[1], d, pixels);
  } else if constexpr (N == 3) {
    hn::StoreInterleaved3(channels[0], channels[1], channels[2], d, pixels);
  } else if constexpr (N % 2 == 0) {  // pairs of channels, moved as numbers of twice the size
    const hn::Repartition<double, D> dp;
    HWY_ALIGN float pairs[N / 2][2 * kLanes];
    RIVULET_UNROLL
    for (int n = 0; n < N; n += 2) hn::StoreInterleaved2(channels[n], channels[n + 1], d, pairs[n / 2]);
    RIVULET_UNROLL
    for (size_t half = 0; half < 2; ++half) {
      const auto pair = [&](int p) HWY_ATTR { return hn::BitCast(dp, hn::Load(d, pairs[p] + half * kLanes)); };
      double* const to = reinterpret_cast<double*>(pixels) + half * N * kLanes / 4;  // accessed by vectors only
      if constexpr (N == 4) hn::StoreInterleaved2(pair(0), pair(1), dp, to);
      if constexpr (N == 6) hn::StoreInterleaved3(pair(0), pair(1), pair(2), dp, to);
      if constexpr (N == 8) hn::StoreInterleaved4(pair(0), pair(1), pair(2), pair(3), dp, to);
    }
  } else {
    HWY_ALIGN float lanes[N][kLanes];
    RIVULET_UNROLL
    for (int n = 0; n < N; ++n) hn::Store(channels[n], d, lanes[n]);
    for (size_t p = 0; p < kLanes; ++p) {
      RIVULET_UNROLL
      for (int n = 0; n < N; ++n) pixels[p * N + n] = lanes[n][p];
    }
  }
}

// R rows of a vector of pixels, for N channels: sums in the order of taps and channels, over the window's rows from
// `first` to `end`. `filter` is [taps, channels, N].
template <int N, int R>
HWY_INLINE void Tile(const PlanarShape& s, const SumFinish& finish, int64_t first, int64_t end, const float* planes,
                     const float* filter, float* out, int64_t pixels) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  constexpr size_t kLanes = hn::MaxLanes(hn::ScalableTag<float>());
  V sum[R][N];
  RIVULET_UNROLL
  for (int r = 0; r < R; ++r) {
    RIVULET_UNROLL
    for (int n = 0; n < N; ++n) sum[r][n] = hn::Zero(d);
  }
  filter += first * s.window_width * s.channels * N;
  for (int64_t y = first; y < end; ++y) {
    for (int64_t x = 0; x < s.window_width; ++x) {
      const float* at = planes + y * s.dilation_height * s.line + x * s.dilation_width;
      for (int64_t c = 0; c < s.channels; ++c, at += s.plane(), filter += N) {
        V in[R];
        RIVULET_UNROLL
        for (int r = 0; r < R; ++r) in[r] = hn::LoadU(d, at + r * s.line);
        RIVULET_UNROLL
        for (int n = 0; n < N; ++n) {
          const V weight = hn::Set(d, filter[n]);
          RIVULET_UNROLL
          for (int r = 0; r < R; ++r) sum[r][n] = hn::MulAdd(weight, in[r], sum[r][n]);
        }
      }
    }
  }
  if (finish.bias != nullptr) {
    const V least = hn::Set(d, finish.least), most = hn::Set(d, finish.most);
    RIVULET_UNROLL
    for (int n = 0; n < N; ++n) {
      const V bias = hn::Set(d, finish.bias[n]);
      RIVULET_UNROLL
      for (int r = 0; r < R; ++r) {
        const V x = hn::Add(sum[r][n], bias), above = hn::IfThenZeroElse(hn::Lt(x, least), x);
        sum[r][n] = hn::IfThenElse(hn::Gt(above, most), most, above);
      }
    }
  }
  RIVULET_UNROLL
  for (int r = 0; r < R; ++r) {
    float* to = out + r * s.out_width * N;
    if (static_cast<size_t>(pixels) == kLanes) {
      Interleave<N>(d, sum[r], to);
      continue;
    }
    HWY_ALIGN float whole[N * kLanes];
    Interleave<N>(d, sum[r], whole);
    std::memcpy(to, whole, static_cast<size_t>(pixels) * N * sizeof(float));
  }
}

// R rows of the result, starting with row y. Rows of the window that are completely in the padding are skipped.
template <int N, int R>
HWY_INLINE void Rows(const PlanarShape& s, const SumFinish& finish, int64_t y, const float* planes, const float* filter,
                     float* out) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  const int64_t step = s.dilation_height, before = std::max<int64_t>(0, s.pad_top - (y + R - 1));
  const int64_t first = std::min(s.window_height, (before + step - 1) / step);
  const int64_t reach = std::max<int64_t>(0, s.pad_top + s.filled_rows() - y);
  const int64_t end = std::clamp((reach + step - 1) / step, first, s.window_height);
  for (int64_t x = 0; x < s.out_width; x += lanes)
    Tile<N, R>(s, finish, first, end, planes + y * s.line + x, filter, out + (y * s.out_width + x) * N,
               std::min(lanes, s.out_width - x));
}

// Splits kChannels channels of a row of pixels into planes.
template <int kChannels>
HWY_INLINE void FillRows(const float* HWY_RESTRICT pixels, int64_t channels, int64_t columns, float* HWY_RESTRICT rows,
                         int64_t plane) {
  for (int64_t x = 0; x < columns; ++x, pixels += channels) {
    RIVULET_UNROLL
    for (int c = 0; c < kChannels; ++c) rows[c * plane + x] = pixels[c];
  }
}

// Splits the image [height, width, channels] into planes. Separate from Planar, which uses all registers.
HWY_NOINLINE void FillPlanes(const PlanarShape& s, const float* image, float* planes) {
  const int64_t columns = std::min(s.width, s.line - s.pad_left), plane = s.plane(), channels = s.channels;
  for (int64_t y = 0; y < s.filled_rows(); ++y) {
    const float* pixels = image + y * s.width * channels;
    float* rows = planes + (s.pad_top + y) * s.line + s.pad_left;
    if (channels == 1) {
      std::copy_n(pixels, columns, rows);
      continue;
    }
    int64_t c = 0;
    for (; c + 4 <= channels; c += 4) FillRows<4>(pixels + c, channels, columns, rows + c * plane, plane);
    for (; c < channels; ++c) FillRows<1>(pixels + c, channels, columns, rows + c * plane, plane);
  }
}

// Whether four rows' sums of N channels fit into registers, with their operands: each weight is then broadcast half as
// often.
#if HWY_TARGET <= HWY_AVX3
template <int N>
constexpr bool kTall = N <= 6;
#else
template <int N>
constexpr bool kTall = N <= 2;
#endif

template <int N>
void Planar(const PlanarShape& s, const SumFinish& finish, const float* images, const float* filter, float* out,
            float* planes) {
  std::fill_n(planes, s.channels * s.plane(), 0.0f);
  for (int64_t image = 0; image < s.batch; ++image) {
    FillPlanes(s, images + image * s.height * s.width * s.channels, planes);
    int64_t y = 0;
    if constexpr (kTall<N>) {
      for (; y + 4 <= s.out_height; y += 4) Rows<N, 4>(s, finish, y, planes, filter, out);
    }
    for (; y + 2 <= s.out_height; y += 2) Rows<N, 2>(s, finish, y, planes, filter, out);
    if (y < s.out_height) Rows<N, 1>(s, finish, y, planes, filter, out);
    out += s.out_height * s.out_width * N;
  }
}

void PlanarOf(const PlanarShape& s, const SumFinish& finish, const float* images, const float* filter, float* out,
              float* planes) {
  switch (s.out_channels) {
    case 1:
      return Planar<1>(s, finish, images, filter, out, planes);
    case 2:
      return Planar<2>(s, finish, images, filter, out, planes);
    case 3:
      return Planar<3>(s, finish, images, filter, out, planes);
    case 4:
      return Planar<4>(s, finish, images, filter, out, planes);
    case 5:
      return Planar<5>(s, finish, images, filter, out, planes);
    case 6:
      return Planar<6>(s, finish, images, filter, out, planes);
    case 7:
      return Planar<7>(s, finish, images, filter, out, planes);
    case 8:
      return Planar<8>(s, finish, images, filter, out, planes);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {
namespace {

HWY_EXPORT(PlanarOf);

class PlanarKernel final : public Kernel {
 public:
  PlanarKernel(ConvDirection direction, const PlanarShape& shape, const FusedOps& fused)
      : direction_(direction), s_(shape), fused_(fused) {}
  Status Run(const KernelContext& context) const override {
    const float* first = reinterpret_cast<const float*>(context.inputs[0]);
    const float* second = reinterpret_cast<const float*>(context.inputs[1]);
    float* result = reinterpret_cast<float*>(context.outputs[0]);
    float* planes = reinterpret_cast<float*>(context.scratch);
    if (direction_ == ConvDirection::kForward) {
      HWY_DYNAMIC_DISPATCH(PlanarOf)(s_, SumFinish::Of(fused_, context), first, second, result, planes);
      return {};
    }
    float* rotated = reinterpret_cast<float*>(context.scratch + s_.planes_bytes());
    RotateFilter(first, s_.window_height * s_.window_width, s_.out_channels, s_.channels, 1, rotated);
    HWY_DYNAMIC_DISPATCH(PlanarOf)(s_, SumFinish(), second, rotated, result, planes);
    return {};
  }

 private:
  ConvDirection direction_;
  PlanarShape s_;
  FusedOps fused_;
};

}  // namespace

std::optional<Prepared> PlanarConvolution(ConvDirection direction, const Window& w, const FusedOps& fused) {
  if (w.groups != 1 || w.stride_height != 1 || w.stride_width != 1 || w.in_elements() == 0 || w.out_elements() == 0 ||
      w.filter_elements() == 0 || direction == ConvDirection::kBackwardFilter)
    return std::nullopt;
  const Window c = ConvolvedWindow(direction, w);
  if (c.pad_top < 0 || c.pad_left < 0) return std::nullopt;
  const int64_t reach_height = (w.height - 1) * w.dilation_height + 1;
  const int64_t reach_width = (w.width - 1) * w.dilation_width + 1;
  PlanarShape s;
  s.batch = c.batch;
  s.height = c.in_height;
  s.width = c.in_width;
  s.channels = c.in_channels;
  s.pad_top = c.pad_top;
  s.pad_left = c.pad_left;
  s.out_height = c.out_height;
  s.out_width = c.out_width;
  s.out_channels = c.out_channels;
  s.window_height = c.height;
  s.window_width = c.width;
  s.dilation_height = c.dilation_height;
  s.dilation_width = c.dilation_width;
  // Sixteen pixels per vector: the choice must not depend on the machine's vector length.
  constexpr int64_t kPixels = 16;
  const int64_t in_vectors = (s.out_width + kPixels - 1) / kPixels * kPixels;
  if (s.out_channels > kMostFew) return std::nullopt;
  s.padded_height = s.out_height - 1 + reach_height;
  s.line = in_vectors + reach_width - 1 + HWY_MAX_BYTES / static_cast<int64_t>(sizeof(float));
  if (s.padded_height > 4 * s.height + 64 || s.line > 4 * s.width + 128) return std::nullopt;
  Prepared prepared;
  prepared.scratch_bytes = s.planes_bytes() + static_cast<size_t>(w.filter_elements()) * sizeof(float);
  prepared.kernel = std::make_unique<PlanarKernel>(direction, s, fused);
  prepared.implementation = "hwy planar";
  prepared.flops = 2 * w.multiply_adds();
  return WithSumFinish(std::move(prepared), fused, w.batch * w.out_height * w.out_width, w.out_channels);
}

}  // namespace rivulet
#endif
