// Conversion of bytes, such as pixels, to float32 with a factor.
#pragma once

#include <cstdint>

namespace rivulet {

// to[i] = from[i] × scale, multiplied in double and rounded once to float32. The bits are the same on every machine,
// and also if a thread flushes denormals, provided that |scale| is at least the least normal float32.
void ScaleBytes(const uint8_t* from, int64_t count, double scale, float* to);

}  // namespace rivulet
