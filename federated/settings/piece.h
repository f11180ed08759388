// A piece of a room by its name and the settings given for it: {"adam", {{"beta1", 0.9}}}. Algorithms compose pieces;
// whoever owns the room checks the settings against the piece's own table.
#pragma once

#include <string>

#include "engine/base/setting.h"

namespace rivulet {

struct PieceSpec {
  std::string name;
  SettingValues settings = {};
};

}  // namespace rivulet
