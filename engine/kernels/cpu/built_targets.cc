#include "engine/kernels/cpu/built_targets.h"

#include <hwy/detect_targets.h>

namespace rivulet {

int64_t BuiltCpuTargets() { return HWY_TARGETS; }

}  // namespace rivulet
