// Layout of the lanes' memory in one allocation: regions with a place for every lane, one behind the other, and regions
// with one place for all. Regions only grow, so that the next task reuses the places of the last.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace rivulet {

// Regions are numbered by position.
class LaneRegions {
 public:
  // Makes room for these lanes and sizes, per lane and shared by all. Returns true if places have moved.
  bool Grow(int lanes, std::span<const size_t> lane_bytes, std::span<const size_t> shared_bytes);

  int lanes() const { return lanes_; }
  size_t bytes() const { return bytes_; }
  // Offset of lane 0, and the distance to the next lane.
  size_t offset(size_t region) const { return lane_[region].offset; }
  size_t stride(size_t region) const { return lane_[region].bytes; }
  size_t shared_offset(size_t region) const { return shared_[region].offset; }

  // Bytes for one lane.
  static size_t LaneBytes(std::span<const size_t> lane_bytes);

 private:
  struct Region {
    size_t bytes = 0, offset = 0;
  };
  int lanes_ = 0;
  size_t bytes_ = 0;
  std::vector<Region> lane_, shared_;
};

}  // namespace rivulet
