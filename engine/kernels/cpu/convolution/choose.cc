#include "engine/kernels/cpu/convolution/choose.h"

#include <optional>
#include <utility>

#include "engine/kernels/cpu/convolution/batch_interleaved_conv.h"
#include "engine/kernels/cpu/convolution/conv_loops.h"
#include "engine/kernels/cpu/convolution/depthwise.h"
#include "engine/kernels/cpu/convolution/direct_conv.h"
#include "engine/kernels/cpu/convolution/dnnl_convolution.h"
#include "engine/kernels/cpu/convolution/epilogue.h"
#include "engine/kernels/cpu/convolution/planar_conv.h"
#include "engine/kernels/cpu/convolution/pooled_convolution.h"
#include "engine/kernels/cpu/convolution/portable_conv.h"
#include "engine/kernels/cpu/convolution/rotated_filter.h"
#include "engine/kernels/cpu/convolution/tile_conv.h"
#include "engine/kernels/cpu/convolution/winograd.h"
#include "engine/kernels/cpu/elementwise/activation_bfloat16.h"

namespace rivulet {
namespace {

template <typename T>
Prepared WithFusedOps(Prepared inner, const ConvolutionProblem& p) {
  if (!p.fused.any()) return inner;
  const Window& w = p.window;
  const int64_t pixels = w.out_height * w.out_width;
  return WithEpilogue<T>(std::move(inner), p.fused, w.nchw ? w.batch : w.batch * pixels, w.out_channels,
                         w.nchw ? pixels : 1);
}

// Images too large for any cache: Rivulet's depthwise kernels, which read memory in order and write past the caches,
// are faster there than the library's.
bool VastImages(const Window& w) {
  constexpr int64_t kManyElements = 4 << 20;
  return w.in_elements() > kManyElements;
}

// Also for NCHW, which the library would reorder.
bool OwnDepthwise(const ConvolutionProblem& p) {
  const Window& w = p.window;
  return w.depthwise() && w.out_channels == w.in_channels && (w.nchw || VastImages(w));
}

// The library's forward depthwise kernels are faster than its gradients of images.
std::optional<Prepared> DepthwiseInputGradient(const ConvolutionProblem& p) {
  const Window& w = p.window;
  if (p.direction != ConvDirection::kBackwardInput || !w.depthwise() || w.nchw || w.out_channels != w.in_channels ||
      VastImages(w))
    return std::nullopt;
  const std::optional<Window> rotated = RotatedDepthwiseWindow(w);
  if (!rotated) return std::nullopt;
  std::optional<Prepared> forward = DnnlConvolution(ConvDirection::kForward, *rotated);
  if (!forward) return std::nullopt;
  return WithRotatedFilter(*std::move(forward), w);
}

// The first layers of images and of LeNet: with so few channels a window's row is a short sum in any implementation.
// Rivulet's kernels apply bias and activation to each image while it is in the cache, where the library's would take
// another pass over all of them. Padded images use the library, which needs no copy. Without bias and activation the
// choice is the same, so that a fused convolution has the bits of its parts.
bool FewChannelsForward(const ConvolutionProblem& p) {
  constexpr int64_t kFewIn = 6, kFewOut = 32;
  const Window& w = p.window;
  return p.direction == ConvDirection::kForward && !w.nchw && w.groups == 1 && w.in_channels <= kFewIn &&
         w.out_channels <= kFewOut && w.stride_height == 1 && w.stride_width == 1 && w.pad_top == 0 &&
         w.pad_left == 0 && w.pad_bottom == 0 && w.pad_right == 0;
}

// For NHWC images with so few channels that vectors of them are mostly empty.
std::optional<Prepared> OfFewChannels(const ConvolutionProblem& p) {
  if (PaysToInterleave(p.direction, p.window)) {
    if (std::optional<Prepared> interleaved = BatchInterleavedConvolution(p.direction, p.window, p.fused))
      return interleaved;
  }
  if (!PaysPlanar(p.direction, p.window)) return std::nullopt;
  return PlanarConvolution(p.direction, p.window, p.fused);
}

std::optional<Prepared> ChooseFloat(const ConvolutionProblem& p) {
  if (std::optional<Prepared> rotated = DepthwiseInputGradient(p)) return rotated;
  if (OwnDepthwise(p)) {
    if (std::optional<Prepared> own = DepthwiseConvolution(p.direction, p.window))
      return WithFusedOps<float>(*std::move(own), p);
  }
  if (!p.window.nchw) {
    if (std::optional<Prepared> few = OfFewChannels(p)) return few;
  } else if (PaysPlanar(p.direction, p.window)) {
    if (std::optional<Prepared> planar = PlanarConvolution(p.direction, p.window))
      return WithFusedOps<float>(InLayout(*std::move(planar), p), p);
  }
  if (PaysWinograd(p.direction, p.window)) {
    if (!p.window.nchw) return WinogradConvolution(p.direction, p.window, p.fused);
    if (std::optional<Prepared> winograd = WinogradConvolution(p.direction, p.window))
      return WithFusedOps<float>(InLayout(*std::move(winograd), p), p);
  }
  if (FewChannelsForward(p)) {
    if (std::optional<Prepared> direct = DirectConvolution(p.direction, p.window, p.fused)) return direct;
  }
  // The library's own bias and activation would save little compared with Rivulet's, but add the bias before the last
  // sums, and convert NaN to 0.
  if (std::optional<Prepared> library = DnnlConvolution(p.direction, p.window))
    return WithFusedOps<float>(*std::move(library), p);
  if (p.window.depthwise()) {
    if (std::optional<Prepared> own = DepthwiseConvolution(p.direction, p.window))
      return WithFusedOps<float>(*std::move(own), p);
  }
  if (p.window.nchw) {
    if (std::optional<Prepared> direct = DirectConvolution(p.direction, p.window))
      return WithFusedOps<float>(InLayout(*std::move(direct), p), p);
  }
  return DirectConvolution(p.direction, p.window, p.fused);
}

// Approximate speed of Winograd's filtering relative to direct sums, both in the vector multiply-adds that direct sums
// do in the same time. The costs of products and transforms are fitted to the presets' shapes, with AVX-512.
double WinogradGain(const WinogradShape& s, const Window& window) {
  constexpr double kProduct = 1.3, kPixelsOfTile = 600, kOutputsOfTile = 300, kFilter = 300;
  const auto vectors = [](int64_t row) { return static_cast<double>(row) / WinogradShape::kLanes; };
  const double tiles = static_cast<double>(s.tiles()), channels = static_cast<double>(s.channels);
  const double in = vectors(s.in_row()), out = vectors(s.out_row());
  const double direct = window.multiply_adds() / static_cast<double>(s.out_channels) * out;
  const double products = kProduct * kWinogradPoints * tiles * channels * out;
  const double transforms = tiles * (kPixelsOfTile * in + kOutputsOfTile * out) + kFilter * channels * out;
  return direct / (products + transforms);
}

}  // namespace

bool PaysToInterleave(ConvDirection direction, const Window& w) {
  constexpr int64_t kFewestImages = 32, kFewIn = 6, kFewOut = 16, kFewestTaps = 9;
  // A constant vector length: the choice must not depend on the machine.
  const int64_t places = (w.batch + kMostInterleaved - 1) / kMostInterleaved * kMostInterleaved;
  if (w.batch < kFewestImages || w.batch * 4 < places * 3 || w.in_channels > kFewIn || w.out_channels > kFewOut ||
      w.height * w.width < kFewestTaps)
    return false;
  // With more channels a window's row is long enough for kernels that use vectors of filters.
  if (direction == ConvDirection::kBackwardFilter && w.in_channels > 1) return false;
  // Interleaved images and outputs must fit the cache.
  constexpr int64_t kNearElements = int64_t{1} << 18;
  return (w.in_elements() + w.out_elements()) / w.batch * kMostInterleaved <= kNearElements;
}

bool PaysPlanar(ConvDirection direction, const Window& w) {
  // Sixteen pixels per vector: the choice must not depend on the machine's vector length.
  constexpr int64_t kPixels = 16;
  // With fewer terms, splitting into planes and interleaving channels again costs too much.
  constexpr int64_t kFewestTerms = 24;
  const Window c = ConvolvedWindow(direction, w);
  const int64_t in_vectors = (c.out_width + kPixels - 1) / kPixels * kPixels;
  return c.in_channels * w.height * w.width >= kFewestTerms && c.out_width * 4 >= in_vectors * 3;
}

bool PaysWinograd(ConvDirection direction, const Window& w) {
  // With more channel pairs, the transformed filter exceeds 9 MB, and it is read once per 48 tiles.
  constexpr int64_t kMostPairs = 256 * 256;
  constexpr double kWorthwhile = 1.2;
  const std::optional<WinogradShape> shape = WinogradShapeOf(direction, w);
  return shape && shape->channels * shape->out_channels <= kMostPairs && WinogradGain(*shape, w) >= kWorthwhile;
}

bool PaysToTile(ConvDirection direction, const Window& w, double products, double pixels) {
  // Minimum share of the products' terms that belong to the convolution.
  constexpr double kFilled = 0.4, kFilledOfFilter = 0.1;
  constexpr double kFilters = 16, kTerms = 32;
  const double filled = direction == ConvDirection::kBackwardFilter ? kFilledOfFilter : kFilled;
  return w.multiply_adds() >= filled * products * pixels * kFilters * kTerms;
}

template <typename T>
StatusOr<Prepared> ChooseConvolution(const ConvolutionProblem& p, const KernelPolicy& policy) {
  if constexpr (std::is_same_v<T, float>) {
    const Window& w = p.window;
    if (!policy.portable && w.depthwise() && w.group_out() > 1) {
      ConvolutionProblem one = p;  // each channel of its images is repeated once per filter
      one.window.in_channels = one.window.groups = w.out_channels;
      one.fused = {};
      if (std::optional<Prepared> fast = ChooseFloat(one))
        return WithFusedOps<T>(WithChannelMultiplier<T>(*std::move(fast), p.direction, w), p);
    } else if (!policy.portable) {
      if (std::optional<Prepared> fast = ChooseFloat(p)) return *std::move(fast);
    }
  }
  if (policy.portable) {
    if (std::optional<Prepared> product = PortableConvolution<T>(p.direction, p.window))
      return WithFusedOps<T>(InLayout(*std::move(product), p), p);
  }
  return WithFusedOps<T>(InLayout(ConvolutionByLoops<T>(p.direction, p.window), p), p);
}

template StatusOr<Prepared> ChooseConvolution<float>(const ConvolutionProblem&, const KernelPolicy&);
template StatusOr<Prepared> ChooseConvolution<double>(const ConvolutionProblem&, const KernelPolicy&);

// bfloat16 if the library is fast for it; else UNIMPLEMENTED, and the node runs in float32.
template <>
StatusOr<Prepared> ChooseConvolution<bfloat16>(const ConvolutionProblem& p, const KernelPolicy& policy) {
  const Window& w = p.window;
  const bool depthwise_multiplier = w.depthwise() && w.group_out() > 1;
  if (!policy.portable && !depthwise_multiplier && !(p.fused.any() && w.nchw)) {
    // oneDNN's forward convolutions are as fast as Rivulet's, but without a suitable bias and activation.
    if (p.direction != ConvDirection::kForward || p.fused.any()) {
      if (std::optional<Prepared> tiles = TileConvolution(p.direction, w, p.fused))
        return InLayout(*std::move(tiles), p);
    }
    if (auto fast = DnnlConvolution(p.direction, w, DType::kBFloat16)) {
      if (!p.fused.any()) return *std::move(fast);
      return WithBFloat16Epilogue(*std::move(fast), p.fused, w.batch * w.out_height * w.out_width, w.out_channels);
    }
  }
  return Unimplemented("bfloat16 convolutions of this shape are not fast on this CPU");
}

// Only Winograd's kernel pools its outputs in registers.
StatusOr<Prepared> ChoosePooledConvolution(const ConvolutionProblem& p, const KernelPolicy& policy) {
  if (!policy.portable && !OfFewChannels(p) && !p.window.depthwise() && p.fused.bias &&
      PaysWinograd(p.direction, p.window)) {
    if (std::optional<Prepared> inside = WinogradConvolution(p.direction, p.window, p.fused, /*pooled=*/true))
      return *std::move(inside);
  }
  RIVULET_ASSIGN_OR_RETURN(Prepared convolution, ChooseConvolution<float>(p, policy));
  return WithMaxPool(std::move(convolution), p.window);
}

}  // namespace rivulet
