// Settings of a trimmed mean: the rule's table, shared with the algorithms based on it.
#pragma once

#include <vector>

#include "engine/base/setting.h"

namespace rivulet {

inline std::vector<Setting> TrimmedMeanSettings() {
  Setting trim = Float("trim", 0.1,
                       "Of the updates, how many are left out at either end of each coordinate, rounded down; 0 is the "
                       "uniform mean.")
                     .AtLeast(0)
                     .Below(0.5);
  trim.example = "0.2";
  return {trim};
}

}  // namespace rivulet
