// Command `rivulet model diff`: the differences of two models or files of weights.
#pragma once

#include "cli/command.h"

namespace rivulet {

Command ModelDiffCommand();

}  // namespace rivulet
