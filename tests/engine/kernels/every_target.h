// Runs a check on every vector instruction set that Highway was compiled for and this CPU supports.
#pragma once

#include <functional>
#include <string>

#include "hwy/targets.h"

namespace rivulet::testing {

inline void OnEveryTarget(const std::function<void(const std::string&)>& check) {
  const int64_t all = hwy::SupportedTargets();
  for (int64_t rest = all; rest != 0; rest &= rest - 1) {
    const int64_t target = rest & -rest;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    check(hwy::TargetName(target));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace rivulet::testing
