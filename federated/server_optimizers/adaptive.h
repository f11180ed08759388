// Settings of the adaptive server optimisers (adaptive.cc): their tables, and those of algorithms based on them.
#pragma once

#include <vector>

#include "engine/base/setting.h"

namespace rivulet {

std::vector<Setting> ServerAdamSettings();  // for Yogi too
std::vector<Setting> ServerAdagradSettings();

}  // namespace rivulet
