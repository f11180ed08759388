// What Adam on the server can be told: its own table, and that of algorithms that are made of it.
#pragma once

#include <vector>

#include "engine/base/setting.h"

namespace rivulet {

std::vector<Setting> ServerAdamSettings();

}  // namespace rivulet
