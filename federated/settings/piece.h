// A piece by its name and settings: {"adam", {{"beta1", 0.9}}}. Algorithms compose pieces; the piece's folder checks
// the settings against its table.
#pragma once

#include <string>

#include "engine/base/setting.h"

namespace rivulet {

struct PieceSpec {
  std::string name;
  SettingValues settings = {};
};

}  // namespace rivulet
