#include "engine/kernels/cpu/convolution/tile_conv.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/kernels/cpu/convolution/choose.h"
#include "engine/kernels/cpu/vector/has_tiles.h"
#include "engine/kernels/cpu/vector/tile_code.h"
#include "engine/program/memory_plan.h"

namespace rivulet {

#ifdef RIVULET_HAS_TILE_CODE

namespace {

using namespace tiles;

constexpr int64_t kTile = kTileRows * kTileBytes;
constexpr int64_t kSteps =
    16;  // approximate number of successive products into the same sums, so that their packed data stays in the cache

int64_t RoundUp(int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; }

// With a stride, taps that are a multiple of it apart use the same pixels. Each such phase of the image is packed
// separately, and twice: a tile's row is a pair of pixels, and a tap may start at the second of a pair.
struct Plan {
  Window w;
  int64_t phases_y = 1, phases_x = 1;
  int64_t grid_width = 0;  // of a row of a phase: an output row and the window's reach beyond it
  int64_t halo = 0;        // rows of a phase beyond the output's
  int64_t band_rows = 0;   // output rows that are packed together
  int64_t bands = 0;       // per image
  int64_t units = 0;       // bands that are packed and multiplied together
  int64_t steps = 0;       // products of 32 pixels per band
  int64_t pairs = 0;       // pairs of pixels in a phase's band, including those that the last tap reads beyond it
  int64_t copies = 1;      // of the image: two if a tap may start at the second pixel of a pair
  int64_t in_tiles = 0, out_tiles = 0;

  int64_t phases() const { return phases_y * phases_x; }
  size_t image_bytes() const { return static_cast<size_t>(copies * phases() * in_tiles * pairs * kTileBytes); }
  size_t gradient_bytes() const { return static_cast<size_t>(out_tiles * steps * kTile); }
  size_t sums_bytes() const {
    return static_cast<size_t>(w.height * w.width * out_tiles * 16 * in_tiles * 16) * sizeof(float);
  }
  size_t scratch_bytes() const {
    return sums_bytes() + static_cast<size_t>(units) * (image_bytes() + gradient_bytes());
  }
  // Number of tile products.
  double products() const {
    return static_cast<double>(w.batch * bands * w.height * w.width * in_tiles * out_tiles * steps);
  }
};

Plan PlanOf(const Window& w) {
  Plan p;
  p.w = w;
  p.phases_y = std::min(w.stride_height, w.height);
  p.phases_x = std::min(w.stride_width, w.width);
  p.grid_width = w.out_width + (w.width - 1) / w.stride_width;
  p.halo = (w.height - 1) / w.stride_height;
  const int64_t fitting = std::max<int64_t>(1, kSteps * kPair / p.grid_width);
  p.bands = (w.out_height + fitting - 1) / fitting;
  p.band_rows = (w.out_height + p.bands - 1) / p.bands;
  p.bands = (w.out_height + p.band_rows - 1) / p.band_rows;
  p.steps = RoundUp((p.band_rows - 1) * p.grid_width + w.out_width, kPair) / kPair;
  p.units = std::clamp<int64_t>(kSteps / p.steps, 1, w.batch * p.bands);
  const int64_t reach = p.halo * p.grid_width + (w.width - 1) / w.stride_width;
  p.pairs = p.steps * kTileRows + reach / 2;
  p.copies = reach > 0 ? 2 : 1;
  p.in_tiles = RoundUp(w.in_channels, 16) / 16;
  p.out_tiles = RoundUp(w.out_channels, 16) / 16;
  return p;
}

// Offsets of the pixels of a phase's row, or of the output's gradient, from the row's first element; -1 for zeros.
std::vector<int64_t> Columns(int64_t count, int64_t first, int64_t step, int64_t size, int64_t channels) {
  std::vector<int64_t> columns;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = first + i * step;
    columns.push_back(at >= 0 && at < size ? at * channels : -1);
  }
  return columns;
}

class FilterGradient final : public Kernel {
 public:
  explicit FilterGradient(const Plan& plan) : p_(plan) {
    const Window& w = p_.w;
    for (int64_t phase = 0; phase < p_.phases_x; ++phase)
      image_columns_.push_back(Columns(p_.grid_width, phase - w.pad_left, w.stride_width, w.in_width, w.in_channels));
    gradient_columns_ = Columns(p_.grid_width, 0, 1, w.out_width, w.out_channels);
  }

  Status Run(const KernelContext& context) const override {
    const auto* const image = reinterpret_cast<const bfloat16*>(context.inputs[0]);
    const auto* const gradient = reinterpret_cast<const bfloat16*>(context.inputs[1]);
    auto* const sums = reinterpret_cast<float*>(context.scratch);
    std::byte* const images = context.scratch + p_.sums_bytes();
    std::byte* const gradients = images + static_cast<size_t>(p_.units) * p_.image_bytes();
    TileConfig config;
    for (int tile = 0; tile < 8; ++tile) config.Set(tile, kTileRows, kTileBytes);
    const int64_t all = p_.w.batch * p_.bands;
    {
      const Tiles tiles(config);
      for (int64_t first = 0; first < all; first += p_.units) {
        const int64_t count = std::min(p_.units, all - first);
        for (int64_t unit = 0; unit < count; ++unit) {
          const int64_t of = (first + unit) / p_.bands, row = (first + unit) % p_.bands * p_.band_rows;
          PackImage(image, of, row, images + static_cast<size_t>(unit) * p_.image_bytes());
          PackGradient(gradient, of, row, gradients + static_cast<size_t>(unit) * p_.gradient_bytes());
        }
        Multiply(images, gradients, count, first == 0, sums);
      }
    }
    Finish(sums, reinterpret_cast<bfloat16*>(context.outputs[0]));
    return absl::OkStatus();
  }

 private:
  // Pairs of pixels, 16 channels of each, twice: starting at even pixels and starting at odd ones.
  RIVULET_TILE_CODE void PackImage(const bfloat16* image, int64_t of, int64_t first_row, std::byte* to) const {
    const Window& w = p_.w;
    const bfloat16* const base = image + of * w.in_height * w.in_width * w.in_channels;
    const int64_t rows = std::min(p_.band_rows, w.out_height - first_row) + p_.halo;
    const int64_t tile_bytes = p_.pairs * kTileBytes, copy_bytes = p_.in_tiles * tile_bytes;
    for (int64_t phase_y = 0; phase_y < p_.phases_y; ++phase_y) {
      for (int64_t phase_x = 0; phase_x < p_.phases_x; ++phase_x, to += p_.copies * copy_bytes) {
        const std::vector<int64_t>& columns = image_columns_[static_cast<size_t>(phase_x)];
        int64_t row = 0, column = 0;
        const auto next = [&]() -> const bfloat16* {
          const int64_t y = (first_row + row) * w.stride_height + phase_y - w.pad_top;
          const int64_t x = columns[static_cast<size_t>(column)];
          const bool inside = row < rows && y >= 0 && y < w.in_height && x >= 0;
          if (++column == p_.grid_width) ++row, column = 0;
          return inside ? base + y * w.in_width * w.in_channels + x : nullptr;
        };
        const bfloat16* first = next();
        for (int64_t pair = 0; pair < p_.pairs; ++pair) {
          const bfloat16 *const second = next(), *const third = next();
          std::byte* tile = to + pair * kTileBytes;
          for (int64_t channel = 0; channel < w.in_channels; channel += 16, tile += tile_bytes) {
            const __mmask16 mask = Lanes(w.in_channels - channel);
            const __m256i a = ChannelsOf(first, channel, mask), b = ChannelsOf(second, channel, mask),
                          c = ChannelsOf(third, channel, mask);
            _mm512_store_si512(tile, Interleaved(Joined(a, b)));
            if (p_.copies == 2) _mm512_store_si512(tile + copy_bytes, Interleaved(Joined(b, c)));
          }
          first = third;
        }
      }
    }
  }

  static RIVULET_TILE_INLINE __m256i ChannelsOf(const bfloat16* pixel, int64_t channel, __mmask16 mask) {
    return pixel == nullptr ? _mm256_setzero_si256() : _mm256_maskz_loadu_epi16(mask, pixel + channel);
  }

  // Transposes 32 pixels of 16 channels at a time: a row for each channel.
  RIVULET_TILE_CODE void PackGradient(const bfloat16* gradient, int64_t of, int64_t first_row, std::byte* to) const {
    const Window& w = p_.w;
    const bfloat16* const base = gradient + of * w.out_height * w.out_width * w.out_channels;
    const int64_t rows = std::min(p_.band_rows, w.out_height - first_row);
    int64_t row = 0, column = 0;
    for (int64_t step = 0; step < p_.steps; ++step, to += kTile) {
      const bfloat16* at[kPair];
      for (const bfloat16*& pixel : at) {
        const int64_t x = gradient_columns_[static_cast<size_t>(column)];
        pixel = row < rows && x >= 0 ? base + (first_row + row) * w.out_width * w.out_channels + x : nullptr;
        if (++column == p_.grid_width) ++row, column = 0;
      }
      for (int64_t tile = 0; tile < p_.out_tiles; ++tile) {
        const __mmask16 mask = Lanes(w.out_channels - tile * 16);
        __m512i pairs[16];
#pragma GCC unroll 16
        for (int64_t pair = 0; pair < 16; ++pair)
          pairs[pair] = Interleaved(
              Joined(ChannelsOf(at[2 * pair], tile * 16, mask), ChannelsOf(at[2 * pair + 1], tile * 16, mask)));
        Transpose(pairs);
        std::byte* const turned = to + tile * p_.steps * kTile;
#pragma GCC unroll 16
        for (int64_t i = 0; i < 16; ++i) _mm512_store_si512(turned + i * kTileBytes, pairs[i]);
      }
    }
  }

  // Sums of up to 32×32 channels stay in tiles while all packed data is multiplied into them. They have the output's
  // channels as rows: so the image's offset changes between taps, in whole rows of a tile, and every load is of whole
  // lines (the transposed form spent half of the time on loads). Taps that start at even pixels come first, then the
  // others, which use the other copy.
  void Multiply(const std::byte* images, const std::byte* gradients, int64_t count, bool first, float* sums) const {
    const Window& w = p_.w;
    const int64_t tile_bytes = p_.pairs * kTileBytes, copy_bytes = p_.in_tiles * tile_bytes;
    const int64_t sums_row = p_.in_tiles * 16;
    for (int64_t out = 0; out < p_.out_tiles; out += 2) {
      for (int64_t odd = 0; odd < 2; ++odd) {
        for (int64_t y = 0; y < w.height; ++y) {
          for (int64_t x = 0; x < w.width; ++x) {
            const int64_t shift = y / w.stride_height * p_.grid_width + x / w.stride_width;
            if (shift % 2 != odd) continue;
            const int64_t phase = y % w.stride_height * p_.phases_x + x % w.stride_width;
            const std::byte* const image = images + (p_.copies * phase + odd) * copy_bytes + shift / 2 * kTileBytes;
            const std::byte* const gradient = gradients + out * p_.steps * kTile;
            float* const to = sums + ((y * w.width + x) * p_.out_tiles + out) * 16 * sums_row;
            for (int64_t in = 0; in < p_.in_tiles; in += 2) {
              const bool two_in = in + 1 < p_.in_tiles, two_out = out + 1 < p_.out_tiles;
              const auto block =
                  two_out ? (two_in ? &FilterGradient::Block<true, true> : &FilterGradient::Block<true, false>)
                          : (two_in ? &FilterGradient::Block<false, true> : &FilterGradient::Block<false, false>);
              (this->*block)(gradient, image + in * tile_bytes, count, first, to + in * 16, sums_row);
            }
          }
        }
      }
    }
  }

  // Tiles: 0 to 3 sums, 4 and 5 the output's gradient, 6 and 7 the image.
  template <bool kTwoOut, bool kTwoIn>
  void Block(const std::byte* gradient, const std::byte* image, int64_t count, bool first, float* sums,
             int64_t sums_row) const {
    const int64_t row_bytes = sums_row * static_cast<int64_t>(sizeof(float));
    float* const below = sums + 16 * sums_row;
    if (first) {
      RIVULET_TILE_ZERO(0);
      if (kTwoIn) RIVULET_TILE_ZERO(1);
      if (kTwoOut) RIVULET_TILE_ZERO(2);
      if (kTwoIn && kTwoOut) RIVULET_TILE_ZERO(3);
    } else {
      RIVULET_TILE_LOAD(0, sums, row_bytes);
      if (kTwoIn) RIVULET_TILE_LOAD(1, sums + 16, row_bytes);
      if (kTwoOut) RIVULET_TILE_LOAD(2, below, row_bytes);
      if (kTwoIn && kTwoOut) RIVULET_TILE_LOAD(3, below + 16, row_bytes);
    }
    for (int64_t unit = 0; unit < count; ++unit) {
      const std::byte* left = gradient + static_cast<size_t>(unit) * p_.gradient_bytes();
      const std::byte* right = image + static_cast<size_t>(unit) * p_.image_bytes();
      for (int64_t step = 0; step < p_.steps; ++step, left += kTile, right += kTile) {
        RIVULET_TILE_LOAD(4, left, kTileBytes);
        RIVULET_TILE_LOAD(6, right, kTileBytes);
        RIVULET_TILE_PRODUCT(0, 4, 6);
        if (kTwoIn) RIVULET_TILE_LOAD(7, right + p_.pairs * kTileBytes, kTileBytes);
        if (kTwoIn) RIVULET_TILE_PRODUCT(1, 4, 7);
        if (kTwoOut) {
          RIVULET_TILE_LOAD(5, left + p_.steps * kTile, kTileBytes);
          RIVULET_TILE_PRODUCT(2, 5, 6);
          if (kTwoIn) RIVULET_TILE_PRODUCT(3, 5, 7);
        }
      }
    }
    RIVULET_TILE_STORE(0, sums, row_bytes);
    if (kTwoIn) RIVULET_TILE_STORE(1, sums + 16, row_bytes);
    if (kTwoOut) RIVULET_TILE_STORE(2, below, row_bytes);
    if (kTwoIn && kTwoOut) RIVULET_TILE_STORE(3, below + 16, row_bytes);
  }

  // Transposes the sums, and rounds them.
  RIVULET_TILE_CODE void Finish(const float* sums, bfloat16* to) const {
    const Window& w = p_.w;
    const int64_t sums_row = p_.in_tiles * 16;
    for (int64_t tap = 0; tap < w.height * w.width; ++tap, to += w.in_channels * w.out_channels) {
      for (int64_t out = 0; out < w.out_channels; out += 16) {
        const __mmask16 mask = Lanes(w.out_channels - out);
        for (int64_t in = 0; in < w.in_channels; in += 16) {
          const float* const from = sums + (tap * p_.out_tiles * 16 + out) * sums_row + in;
          __m512i r[16];
#pragma GCC unroll 16
          for (int64_t i = 0; i < 16; ++i) r[i] = _mm512_load_si512(from + i * sums_row);
          Transpose(r);
          const int64_t count = std::min<int64_t>(16, w.in_channels - in);
          for (int64_t i = 0; i < count; ++i)
            _mm256_mask_storeu_epi16(to + (in + i) * w.out_channels + out, mask, Rounded(_mm512_castsi512_ps(r[i])));
        }
      }
    }
  }

  Plan p_;
  std::vector<std::vector<int64_t>> image_columns_;  // by phase
  std::vector<int64_t> gradient_columns_;
};

}  // namespace

std::optional<Prepared> TileFilterGradient(const Window& w) {
  if (!HasTiles() || w.groups != 1 || w.dilation_height != 1 || w.dilation_width != 1) return std::nullopt;
  if (w.in_elements() == 0 || w.out_elements() == 0 || w.filter_elements() == 0) return std::nullopt;
  const Plan plan = PlanOf(w);
  if (!PaysToTile(ConvDirection::kBackwardFilter, w, plan.products(), 16)) return std::nullopt;
  Prepared prepared;
  prepared.kernel = std::make_unique<FilterGradient>(plan);
  prepared.scratch_bytes = plan.scratch_bytes();
  prepared.implementation = "amx";
  prepared.flops = 2 * w.multiply_adds();
  return prepared;
}

#else

std::optional<Prepared> TileFilterGradient(const Window&) { return std::nullopt; }

#endif

}  // namespace rivulet
