// Which instruction sets the vector kernels of this program were compiled for (RIVULET_OLD_CPUS).
#pragma once

#include <cstdint>

namespace rivulet {

// Highway's bits, HWY_AVX2 and so on.
int64_t BuiltCpuTargets();

}  // namespace rivulet
