// Detection of the processor's matrix unit (AMX).
#pragma once

namespace rivulet {

// Returns true if this processor has AMX for bfloat16, the operating system permits it, and RestrictCpuTargets has not
// excluded AVX-512. The first call requests the system's permission.
bool HasTiles();

}  // namespace rivulet
