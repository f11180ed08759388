// Detection of the processor's matrix unit (AMX).
#pragma once

namespace rivulet {

// Whether this processor has AMX for bfloat16, the system lets the process use it, and no restriction of instruction
// sets forbids it (RestrictCpuTargets). The first call asks the system.
bool HasTiles();

}  // namespace rivulet
