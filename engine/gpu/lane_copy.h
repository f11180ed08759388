// Arguments of the only kernel that programs launch directly: assignments and fetches of several lanes at once. Its
// device code is engine/kernels/cuda/lane_copy.cu.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rivulet {

inline constexpr std::string_view kLaneCopyKernel = "copy_lanes";

// Copies `bytes` bytes per lane. Source and destination are disjoint or identical.
struct LaneCopyArguments {
  std::byte* to;
  size_t to_lane_stride;
  const std::byte* from;
  size_t from_lane_stride;
  size_t bytes;
  int32_t lanes;
  const int32_t* ids;  // in device memory; null: 0, 1, …
};

}  // namespace rivulet
