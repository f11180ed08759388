#pragma once

#include "cli/command.h"

namespace rivulet {

// rivulet model evaluate.
Command ModelEvaluateCommand();

}  // namespace rivulet
