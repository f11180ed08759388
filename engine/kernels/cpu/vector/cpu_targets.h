// Instruction sets that kernels may use. By default the best of the CPU; a lower one reproduces another machine's
// results.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace rivulet {

// The environment variable that programs pass on to RestrictCpuTargets.
inline constexpr char kCpuTargetsVariable[] = "RIVULET_CPU_TARGETS";

// From now on only instruction sets of the comma-separated list: "avx512", "avx2", "sse4", "none" (the compiler's
// baseline, which is always allowed). oneDNN is held to the best of them too. Once, before the first kernel
// is prepared and before other threads are started. INVALID_ARGUMENT: an unknown name, an empty list.
Status RestrictCpuTargets(std::string_view list);

// The instruction set that our own kernels use: "AVX3".
std::string CpuTargetName();

}  // namespace rivulet
