// Arguments of the conversions between float and the 16-bit floating types, for several lanes at once. Ops without a
// 16-bit kernel use them (engine/program/via_float32.h). The device code is engine/kernels/cuda/lane_cast.cu.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rivulet {

// "widen_bfloat16", "widen_float16": `from` has 16-bit values, `to` has floats. "narrow_bfloat16", "narrow_float16":
// the reverse, rounded to the nearest, ties to even.
struct LaneCastArguments {
  std::byte* to;
  size_t to_lane_stride;
  const std::byte* from;
  size_t from_lane_stride;
  int64_t count;
  float largest;  // narrowed results above this become this; infinity: no limit
  int32_t lanes;
  const int32_t* ids;  // in device memory; null: 0, 1, …
};

}  // namespace rivulet
