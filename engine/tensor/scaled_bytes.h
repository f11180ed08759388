// Conversion of bytes, such as pixels, to float32 with a factor.
#pragma once

#include <cstdint>

namespace rivulet {

// to[i] = from[i] × scale, multiplied in double and rounded once more to float32: the same bits on every machine, and
// also where a thread flushes denormals, as long as |scale| is at least the least normal float32.
void ScaleBytes(const uint8_t* from, int64_t count, double scale, float* to);

}  // namespace rivulet
