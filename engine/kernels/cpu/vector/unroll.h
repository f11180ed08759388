// RIVULET_UNROLL, before a loop over vectors that are held in registers. Registers have no addresses: an array of
// vectors stays in them only where every index into it is a constant, and that it is once the loop is gone. A loop that
// is left keeps its array in memory, and each sum waits for its store and its load. 16 is as many as any of these loops
// has turns; the turns of a loop are bounded by its array, so that nothing longer is written out.
#pragma once

#define RIVULET_UNROLL _Pragma("GCC unroll 16")
