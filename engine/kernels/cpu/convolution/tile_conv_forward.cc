// Convolutions and gradients of their images: both slide a window over an image, the gradient with the filter rotated.
#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/kernels/cpu/convolution/choose.h"
#include "engine/kernels/cpu/convolution/rotated_filter.h"
#include "engine/kernels/cpu/convolution/tile_conv.h"
#include "engine/kernels/cpu/vector/has_tiles.h"
#include "engine/kernels/cpu/vector/tile_code.h"
#include "engine/program/memory_plan.h"

namespace rivulet {

#ifdef RIVULET_HAS_TILE_CODE

namespace {

using namespace tiles;

constexpr int64_t kTile = kTileRows * kTileBytes;
constexpr int64_t kTilesAtOnce = 4;  // tiles of pixels, with the same 16 channels of the filter
constexpr int64_t kElement = sizeof(bfloat16);

// A row of the window over adjacent pixels is contiguous memory, `width · channels` elements, of which a product takes
// 32: so few channels fill a product as well as many. A tile has adjacent pixels of one output row.
struct Plan {
  int64_t batch = 0, channels = 0, filters = 0;  // of the image, of the result
  int64_t height = 0, width = 0;                 // of the window
  int64_t in_height = 0, in_width = 0, out_height = 0, out_width = 0;
  int64_t stride_y = 1, stride_x = 1, top = 0, left = 0;
  bool rotated = false;  // the filter is [height, width, filters, channels], and is rotated
  int64_t padded_height = 0, padded_width = 0;
  bool padded = false;  // whether the image has to be copied
  int64_t steps = 0;    // products per row of the window
  int64_t filter_tiles = 0;
  int64_t tile_pixels = 0, tiles_a_row = 0;

  size_t image_bytes() const {
    if (!padded) return 0;
    // The last window's last product may read beyond the image.
    return static_cast<size_t>((padded_height * padded_width * channels + kPair) * kElement + 63) / 64 * 64;
  }
  size_t filter_bytes() const { return static_cast<size_t>(filter_tiles * height * steps * kTile); }
  double products() const {
    return static_cast<double>(batch * out_height * tiles_a_row * filter_tiles * height * steps);
  }
};

Plan PlanOf(ConvDirection direction, const Window& w) {
  Plan p;
  const Window c = ConvolvedWindow(direction, w);
  p.batch = c.batch;
  p.height = c.height;
  p.width = c.width;
  p.rotated = direction == ConvDirection::kBackwardInput;
  p.channels = c.in_channels, p.filters = c.out_channels;
  p.in_height = c.in_height, p.in_width = c.in_width, p.out_height = c.out_height, p.out_width = c.out_width;
  p.top = c.pad_top, p.left = c.pad_left;
  p.stride_y = c.stride_height, p.stride_x = c.stride_width;
  p.padded_height = (p.out_height - 1) * p.stride_y + p.height;
  p.padded_width = (p.out_width - 1) * p.stride_x + p.width;
  p.steps = (p.width * p.channels + kPair - 1) / kPair;
  p.padded = p.top != 0 || p.left != 0 || p.padded_height > p.in_height || p.padded_width > p.in_width ||
             p.width * p.channels % kPair != 0;
  if (!p.padded) p.padded_height = p.in_height, p.padded_width = p.in_width;
  p.filter_tiles = (p.filters + 15) / 16;
  p.tiles_a_row = (p.out_width + kTileRows - 1) / kTileRows;
  p.tile_pixels = (p.out_width + p.tiles_a_row - 1) / p.tiles_a_row;
  return p;
}

class SlidingProduct final : public Kernel {
 public:
  SlidingProduct(const Plan& plan, const FusedOps& fused) : p_(plan), fused_(fused) {
    for (int64_t y = 0; y < p_.out_height; ++y) {
      for (int64_t tile = 0; tile < p_.tiles_a_row; ++tile) {
        // The last tile of a row starts early enough to be full, and computes some pixels twice.
        const int64_t x = std::min(tile * p_.tile_pixels, p_.out_width - p_.tile_pixels);
        places_.push_back({(y * p_.stride_y * p_.padded_width + x * p_.stride_x) * p_.channels * kElement,
                           (y * p_.out_width + x) * p_.filters});
      }
    }
  }

  Status Run(const KernelContext& context) const override {
    const auto* const image = reinterpret_cast<const bfloat16*>(context.inputs[p_.rotated ? 1 : 0]);
    const auto* const filter = reinterpret_cast<const bfloat16*>(context.inputs[p_.rotated ? 0 : 1]);
    const bfloat16* const bias = fused_.bias ? reinterpret_cast<const bfloat16*>(context.inputs[2]) : nullptr;
    auto* const out = reinterpret_cast<bfloat16*>(context.outputs[0]);
    std::byte* const packed = context.scratch;
    auto* const copy = reinterpret_cast<bfloat16*>(context.scratch + p_.filter_bytes());
    p_.rotated ? PackRotated(filter, packed) : Pack(filter, packed);
    if (p_.padded) std::memset(static_cast<void*>(copy), 0, p_.image_bytes());
    TileConfig config;
    for (const int tile : {0, 1, 2, 3, 4, 5, 6}) config.Set(tile, p_.tile_pixels, kTileBytes);
    config.Set(7, kTileRows, kTileBytes);
    const Tiles tiles(config);
    for (int64_t of = 0; of < p_.batch; ++of) {
      const bfloat16* from = image + of * p_.in_height * p_.in_width * p_.channels;
      if (p_.padded) {
        Copy(from, copy);
        from = copy;
      }
      bfloat16* const to = out + of * p_.out_height * p_.out_width * p_.filters;
      switch (fused_.activation) {
        case FusedOps::Activation::kNone:
          Slide<FusedOps::Activation::kNone>(from, packed, bias, to);
          break;
        case FusedOps::Activation::kRelu:
          Slide<FusedOps::Activation::kRelu>(from, packed, bias, to);
          break;
        case FusedOps::Activation::kRelu6:
          Slide<FusedOps::Activation::kRelu6>(from, packed, bias, to);
          break;
      }
    }
    return absl::OkStatus();
  }

 private:
  struct Place {
    int64_t image;  // byte offset in the image
    int64_t out;    // element offset in the output
  };

  // Copies the image between zeros, which are kept from image to image.
  void Copy(const bfloat16* image, bfloat16* to) const {
    const int64_t first = std::max<int64_t>(0, -p_.left), columns = std::min(p_.in_width, p_.padded_width - p_.left);
    for (int64_t y = 0; y < p_.in_height; ++y) {
      const int64_t row = y + p_.top;
      if (row < 0 || row >= p_.padded_height || columns <= first) continue;
      std::memcpy(static_cast<void*>(to + (row * p_.padded_width + p_.left + first) * p_.channels),
                  image + (y * p_.in_width + first) * p_.channels,
                  static_cast<size_t>((columns - first) * p_.channels * kElement));
    }
  }

  // Packs one tile for every 16 filters, row of the window and 32 terms of it; its rows are pairs of terms.
  RIVULET_TILE_CODE void Pack(const bfloat16* filter, std::byte* to) const {
    const int64_t terms = p_.width * p_.channels;
    for (int64_t tile = 0; tile < p_.filter_tiles; ++tile) {
      const __mmask16 mask = Lanes(p_.filters - tile * 16), none = 0;
      for (int64_t y = 0; y < p_.height; ++y) {
        const bfloat16* const row = filter + y * terms * p_.filters + tile * 16;
        for (int64_t term = 0; term < p_.steps * kPair; term += 2, to += kTileBytes) {
          const bool one = term < terms, two = term + 1 < terms;
          _mm512_store_si512(to,
                             PairOfRows(one ? row + term * p_.filters : row, two ? row + (term + 1) * p_.filters : row,
                                        one ? mask : none, two ? mask : none));
        }
      }
    }
  }

  // The same for the filter [height, width, filters, channels] rotated: its last row and column come first.
  RIVULET_TILE_CODE void PackRotated(const bfloat16* filter, std::byte* to) const {
    const int64_t terms = p_.width * p_.channels;
    for (int64_t tile = 0; tile < p_.filter_tiles; ++tile) {
      for (int64_t y = 0; y < p_.height; ++y) {
        for (int64_t step = 0; step < p_.steps; ++step, to += kTile) {
          __m512i rows[16];
          for (int64_t i = 0; i < 16; ++i) {
            const int64_t of = tile * 16 + i;
            alignas(64) bfloat16 run[kPair] = {};
            if (of < p_.filters) {
              for (int64_t term = step * kPair, end = std::min(terms, term + kPair); term < end;) {
                const int64_t x = term / p_.channels, channel = term % p_.channels;
                const int64_t count = std::min(p_.channels - channel, end - term);
                const int64_t tap = (p_.height - 1 - y) * p_.width + p_.width - 1 - x;
                std::memcpy(static_cast<void*>(run + term % kPair),
                            filter + (tap * p_.filters + of) * p_.channels + channel,
                            static_cast<size_t>(count * kElement));
                term += count;
              }
            }
            rows[i] = _mm512_load_si512(run);
          }
          Transpose(rows);
          for (int64_t i = 0; i < 16; ++i) _mm512_store_si512(to + i * kTileBytes, rows[i]);
        }
      }
    }
  }

  template <FusedOps::Activation kActivation>
  RIVULET_TILE_CODE void Slide(const bfloat16* image, const std::byte* packed, const bfloat16* bias,
                               bfloat16* to) const {
    alignas(64) float sums[2][kTilesAtOnce * kTileRows * 16];
    const auto* const bytes = reinterpret_cast<const std::byte*>(image);
    const int64_t pixel_bytes = p_.stride_x * p_.channels * kElement;
    const int64_t row_bytes = p_.padded_width * p_.channels * kElement;
    const auto all = static_cast<int64_t>(places_.size());
    size_t slot = 0;
    for (int64_t tile = 0; tile < p_.filter_tiles; ++tile) {
      const std::byte* const right = packed + tile * p_.height * p_.steps * kTile;
      const __mmask16 mask = Lanes(p_.filters - tile * 16);
      __m512 added = _mm512_setzero_ps();
      if (bias != nullptr) {
        const __m256i bits = _mm256_maskz_loadu_epi16(mask, bias + tile * 16);
        added = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
      }
      for (int64_t first = 0; first < all; first += kTilesAtOnce, slot = 1 - slot) {
        const Place* const places = places_.data() + first;
        const int64_t count = std::min(kTilesAtOnce, all - first);
        float* const made = sums[slot];
        switch (count) {
          case 1:
            Multiply<1>(bytes, places, pixel_bytes, row_bytes, right, made);
            break;
          case 2:
            Multiply<2>(bytes, places, pixel_bytes, row_bytes, right, made);
            break;
          case 3:
            Multiply<3>(bytes, places, pixel_bytes, row_bytes, right, made);
            break;
          default:
            Multiply<4>(bytes, places, pixel_bytes, row_bytes, right, made);
        }
        for (int64_t i = 0; i < count; ++i) {
          const float* from = made + i * kTileRows * 16;
          bfloat16* pixel = to + places[i].out + tile * 16;
          for (int64_t row = 0; row < p_.tile_pixels; ++row, from += 16, pixel += p_.filters) {
            __m512 x = _mm512_add_ps(_mm512_load_ps(from), added);
            // NaN stays NaN: it is neither below zero nor above six.
            if constexpr (kActivation != FusedOps::Activation::kNone)
              x = _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ), _mm512_setzero_ps());
            if constexpr (kActivation == FusedOps::Activation::kRelu6)
              x = _mm512_min_ps(_mm512_set1_ps(6), x);  // returns the second operand if one is NaN
            _mm256_mask_storeu_epi16(pixel, mask, Rounded(x));
          }
        }
      }
    }
  }

  // Tiles: 0 to 3 sums, 4 to 6 the image, 7 the filter.
  template <int kCount>
  void Multiply(const std::byte* image, const Place* places, int64_t pixel_bytes, int64_t row_bytes,
                const std::byte* right, float* sums) const {
    RIVULET_TILE_ZERO(0);
    if (kCount > 1) RIVULET_TILE_ZERO(1);
    if (kCount > 2) RIVULET_TILE_ZERO(2);
    if (kCount > 3) RIVULET_TILE_ZERO(3);
    const std::byte *first = image + places[0].image, *second = image + places[kCount > 1 ? 1 : 0].image;
    const std::byte *third = image + places[kCount > 2 ? 2 : 0].image,
                    *fourth = image + places[kCount > 3 ? 3 : 0].image;
    for (int64_t y = 0; y < p_.height; ++y) {
      for (int64_t step = 0; step < p_.steps; ++step, right += kTile) {
        const int64_t at = y * row_bytes + step * kTileBytes;
        RIVULET_TILE_LOAD(7, right, kTileBytes);
        RIVULET_TILE_LOAD(4, first + at, pixel_bytes);
        RIVULET_TILE_PRODUCT(0, 4, 7);
        if (kCount > 1) RIVULET_TILE_LOAD(5, second + at, pixel_bytes);
        if (kCount > 1) RIVULET_TILE_PRODUCT(1, 5, 7);
        if (kCount > 2) RIVULET_TILE_LOAD(6, third + at, pixel_bytes);
        if (kCount > 2) RIVULET_TILE_PRODUCT(2, 6, 7);
        if (kCount > 3) RIVULET_TILE_LOAD(4, fourth + at, pixel_bytes);
        if (kCount > 3) RIVULET_TILE_PRODUCT(3, 4, 7);
      }
    }
    constexpr int64_t kSums = kTileRows * 16;
    RIVULET_TILE_STORE(0, sums, kTileBytes);
    if (kCount > 1) RIVULET_TILE_STORE(1, sums + kSums, kTileBytes);
    if (kCount > 2) RIVULET_TILE_STORE(2, sums + 2 * kSums, kTileBytes);
    if (kCount > 3) RIVULET_TILE_STORE(3, sums + 3 * kSums, kTileBytes);
  }

  Plan p_;
  FusedOps fused_;
  std::vector<Place> places_;  // of tiles
};

}  // namespace

std::optional<Prepared> TileConvolution(ConvDirection direction, const Window& w, const FusedOps& fused) {
  if (direction == ConvDirection::kBackwardFilter) return TileFilterGradient(w);
  if (!HasTiles() || w.groups != 1 || w.dilation_height != 1 || w.dilation_width != 1) return std::nullopt;
  if (w.in_elements() == 0 || w.out_elements() == 0 || w.filter_elements() == 0) return std::nullopt;
  if (direction == ConvDirection::kBackwardInput && (w.stride_height != 1 || w.stride_width != 1)) return std::nullopt;
  // A window of one pixel is a plain product; here the image would be read once for every 16 filters.
  if (w.height == 1 && w.width == 1) return std::nullopt;
  const Plan plan = PlanOf(direction, w);
  // A product's time is proportional to the height of its tile of pixels, but with a minimum of about eight.
  const double pixels = static_cast<double>(std::max<int64_t>(8, plan.tile_pixels));
  if (!PaysToTile(direction, w, plan.products(), pixels)) return std::nullopt;
  Prepared prepared;
  prepared.kernel = std::make_unique<SlidingProduct>(plan, fused);
  prepared.scratch_bytes = plan.filter_bytes() + plan.image_bytes();
  prepared.implementation = fused.any() ? "amx, epilogue inside" : "amx";
  prepared.flops = 2 * w.multiply_adds();
  return prepared;
}

#else

std::optional<Prepared> TileConvolution(ConvDirection, const Window&, const FusedOps&) { return std::nullopt; }

#endif

}  // namespace rivulet
