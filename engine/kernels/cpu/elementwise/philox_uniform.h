// Uniform floats from consecutive Philox blocks. Several blocks are computed at a time, so that the speed is limited by
// multiplications and not by the latency of one block's ten rounds.
#pragma once

#include <cstddef>

#include "engine/base/philox.h"

namespace rivulet {

// out[4 b + w] = UniformFloat(word w of the block at `counter` with b added to its first word, without carry), for b
// below `blocks`.
void UniformFloats(PhiloxKey key, const PhiloxBlock& counter, size_t blocks, float* out);

}  // namespace rivulet
