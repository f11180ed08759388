#include "engine/kernels/cpu/vector/cpu_targets.h"

#include <array>
#include <cstdlib>
#include <vector>

#include "engine/base/nearest.h"
#include "hwy/nanobenchmark.h"
#include "hwy/targets.h"

// The shared library measures its timer when it is loaded, for its own
// benchmarks: 2 to 8 ms in every command, for a number that only hwy::Measure
// uses. The dynamic linker prefers the program's definition to the library's.
uint64_t hwy::platform::TimerResolution() { return 1; }

namespace rivulet {
namespace {

struct Target {
  std::string_view name;
  int64_t highway;
  const char* onednn;  // the value of DNNL_MAX_CPU_ISA
};

// From the best to the worst.
constexpr std::array<Target, 4> kTargets = {{
    {"avx512", HWY_AVX3 | HWY_AVX3_DL, "DEFAULT"},
    {"avx2", HWY_AVX2, "AVX2"},
    {"sse4", HWY_SSE4, "SSE41"},
    {"none", 0, "SSE41"},  // the library's minimum
}};

}  // namespace

Status RestrictCpuTargets(std::string_view list) {
  int64_t allowed = 0;
  size_t best = kTargets.size();
  while (true) {
    const size_t comma = list.find(',');
    const std::string_view name = list.substr(0, comma);
    size_t found = 0;
    while (found < kTargets.size() && kTargets[found].name != name) ++found;
    if (found == kTargets.size()) {
      std::vector<std::string> names;
      for (const Target& target : kTargets) names.emplace_back(target.name);
      return InvalidArgument(
          "'{}' is no instruction set that kernels are built for; there are avx512, avx2, sse4 and none.{}", name,
          DidYouMean(name, names));
    }
    allowed |= kTargets[found].highway;
    best = std::min(best, found);
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  int64_t all = 0;
  for (const Target& target : kTargets) all |= target.highway;
  hwy::DisableTargets(all & ~allowed);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  ::setenv("DNNL_MAX_CPU_ISA", kTargets[best].onednn, /*overwrite=*/0);  // a user's setting is kept
  return absl::OkStatus();
}

std::string CpuTargetName() {
  // Kernels are not built for SSSE3 alone (cmake/Dependencies.cmake), but the library detects it.
  const int64_t supported = hwy::SupportedTargets() & ~int64_t{HWY_SSSE3};
  return hwy::TargetName(supported & -supported);  // better targets have lower bits
}

}  // namespace rivulet
