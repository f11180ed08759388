// Command `rivulet model base`: the digest by which plans and clients name a base.
#pragma once

#include "cli/command.h"

namespace rivulet {

Command ModelBaseCommand();

}  // namespace rivulet
