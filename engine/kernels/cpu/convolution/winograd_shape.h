// Partition of Winograd's convolutions (winograd.h): tiles of an image, points of a tile, and the offsets of their
// transforms in scratch memory.
#pragma once

#include <algorithm>
#include <cstdint>

namespace rivulet {

// A tile has kWinogradSide × kWinogradSide pixels, and as many points at which the polynomials are multiplied.
constexpr int kWinogradSide = 6, kWinogradPoints = kWinogradSide * kWinogradSide;

// A convolution of NHWC images; for the input's gradient, that of the output's gradient with the rotated filter.
struct WinogradShape {
  int64_t batch, height, width, channels;
  int64_t pad_top, pad_left;
  int64_t out_height, out_width, out_channels;
  int64_t window;

  int64_t outputs() const { return kWinogradSide + 1 - window; }  // per tile and axis
  int64_t tiles_down() const { return (out_height + outputs() - 1) / outputs(); }
  int64_t tiles_across() const { return (out_width + outputs() - 1) / outputs(); }
  int64_t tiles() const { return batch * tiles_down() * tiles_across(); }

  // Number of tiles per step, such that intermediate values stay in the second cache, and the products' filters are
  // read rarely.
  int64_t tiles_at_once() const {
    constexpr int64_t kMost = 48;
    const int64_t blocks = (tiles() + kMost - 1) / kMost;
    return (tiles() + blocks - 1) / blocks;
  }

  // Channels per pixel in transformed tiles, and filters per panel: multiples of every target's vectors.
  static constexpr int64_t kLanes = 16, kPanel = 2 * kLanes;
  static int64_t Whole(int64_t channels) { return (channels + kLanes - 1) / kLanes * kLanes; }
  int64_t in_row() const { return Whole(channels); }
  int64_t out_row() const { return Whole(out_channels); }
  int64_t panel(int64_t filter) const { return filter / kPanel * kPanel * channels + filter % kPanel; }

  // Distance between points. An odd number of cache lines, or a tile's 36 points would share a few sets of the cache.
  static int64_t OddLines(int64_t elements) { return ((elements + kLanes - 1) / kLanes | 1) * kLanes; }
  int64_t in_point() const { return OddLines(tiles_at_once() * in_row()); }
  int64_t out_point() const { return OddLines(tiles_at_once() * out_row()); }
  int64_t filter_point() const { return OddLines((out_channels + kPanel - 1) / kPanel * kPanel * channels); }
  int64_t sum_point() const { return OddLines(channels * out_row()); }
};

// Iterates over tiles, row by row and image by image.
class WinogradTile {
 public:
  WinogradTile(const WinogradShape& s, int64_t tile)
      : s_(s),
        image_(tile / (s.tiles_down() * s.tiles_across())),
        top_(tile / s.tiles_across() % s.tiles_down() * s.outputs()),
        left_(tile % s.tiles_across() * s.outputs()) {}
  int64_t image() const { return image_; }
  int64_t top() const { return top_; }  // of its outputs
  int64_t left() const { return left_; }
  void Next() {
    left_ += s_.outputs();
    if (left_ < s_.out_width) return;
    left_ = 0;
    top_ += s_.outputs();
    if (top_ < s_.out_height) return;
    top_ = 0;
    ++image_;
  }

 private:
  const WinogradShape& s_;
  int64_t image_, top_, left_;
};

// Parts of the scratch memory, in elements.
struct WinogradScratch {
  explicit WinogradScratch(const WinogradShape& s, bool of_filter)
      : outside(std::max(s.in_row(), s.out_row())),
        filter(outside + kWinogradPoints * (of_filter ? s.sum_point() : s.filter_point())),
        in(filter + kWinogradPoints * s.in_point()),
        out(in + kWinogradPoints * s.out_point()) {}
  // End of each part: zeros for pixels outside; the transformed filter or its gradient; tiles of the image; of outputs.
  int64_t outside, filter, in, out;
};

}  // namespace rivulet
