// rivulet model diff: what two models, or two files of weights, have not in common.
#pragma once

#include "cli/command.h"

namespace rivulet {

Command ModelDiffCommand();

}  // namespace rivulet
