// RIVULET_UNROLL, for loops over vectors in registers. An array of vectors stays in registers only if every index is a
// constant, as after complete unrolling, because registers have no addresses. Otherwise the array is in memory, and
// each sum waits for a store and a load. These loops have at most 16 iterations, as their arrays' sizes do, so nothing
// longer is unrolled.
#pragma once

#define RIVULET_UNROLL _Pragma("GCC unroll 16")
