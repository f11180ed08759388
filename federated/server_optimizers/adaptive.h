// What the adaptive servers can be told (adaptive.cc): their own tables, and those of algorithms that are made of them.
#pragma once

#include <vector>

#include "engine/base/setting.h"

namespace rivulet {

std::vector<Setting> ServerAdamSettings();  // Yogi's too
std::vector<Setting> ServerAdagradSettings();

}  // namespace rivulet
