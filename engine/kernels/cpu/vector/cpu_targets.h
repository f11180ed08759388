// Instruction sets that kernels may use. By default the best of the CPU; a lower one reproduces another machine's
// results.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace rivulet {

// The environment variable that programs read and pass to RestrictCpuTargets.
inline constexpr char kCpuTargetsVariable[] = "RIVULET_CPU_TARGETS";

// Restricts kernels and oneDNN to the instruction sets of a comma-separated list. Names: "avx512", "avx2", "sse4",
// "none" (the compiler's baseline, always allowed). oneDNN gets the best of them as its limit. Call it once, before the
// first kernel is prepared and before other threads start. INVALID_ARGUMENT: an unknown name or an empty list.
Status RestrictCpuTargets(std::string_view list);

// Returns the name of the instruction set that Rivulet's own kernels use, such as "AVX3".
std::string CpuTargetName();

}  // namespace rivulet
