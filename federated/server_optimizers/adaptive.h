// Settings of the adaptive server optimisers (adaptive.cc): their tables, and those of algorithms based on them.
#pragma once

#include <vector>

#include "engine/base/setting.h"

namespace rivulet {

std::vector<Setting> ServerAdamSettings();  // Yogi's too
std::vector<Setting> ServerAdagradSettings();

}  // namespace rivulet
