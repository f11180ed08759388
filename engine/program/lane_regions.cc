#include "engine/program/lane_regions.h"

#include "engine/gpu/gpu_alignment.h"

namespace rivulet {

bool LaneRegions::Grow(int lanes, std::span<const size_t> lane_bytes, std::span<const size_t> shared_bytes) {
  bool grown = lanes > lanes_ || lane_bytes.size() > lane_.size() || shared_bytes.size() > shared_.size();
  const auto widen = [&](std::vector<Region>& regions, std::span<const size_t> wanted) {
    if (regions.size() < wanted.size()) regions.resize(wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (GpuAligned(wanted[i]) <= regions[i].bytes) continue;
      regions[i].bytes = GpuAligned(wanted[i]);
      grown = true;
    }
  };
  widen(lane_, lane_bytes);
  widen(shared_, shared_bytes);
  if (!grown) return false;
  if (lanes > lanes_) lanes_ = lanes;
  bytes_ = 0;
  for (Region& region : lane_) {
    region.offset = bytes_;
    bytes_ += region.bytes * static_cast<size_t>(lanes_);
  }
  for (Region& region : shared_) {
    region.offset = bytes_;
    bytes_ += region.bytes;
  }
  return true;
}

size_t LaneRegions::LaneBytes(std::span<const size_t> lane_bytes) {
  size_t bytes = 0;
  for (const size_t one : lane_bytes) bytes += GpuAligned(one);
  return bytes;
}

}  // namespace rivulet
