// RIVULET_UNROLL, for loops over vectors in registers. Registers have no addresses: an array of vectors stays in them
// only if every index into it is a constant, as after complete unrolling. A remaining loop keeps its array in memory,
// and each sum waits for its store and its load. None of these loops has more than 16 turns; the array bounds them, so
// that nothing longer is unrolled.
#pragma once

#define RIVULET_UNROLL _Pragma("GCC unroll 16")
