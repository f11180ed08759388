// Command `rivulet model inspect`: the tensors of a model or a file of weights.
#pragma once

#include "cli/command.h"

namespace rivulet {

Command ModelInspectCommand();

}  // namespace rivulet
