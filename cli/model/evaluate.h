// Command `rivulet model evaluate`.
#pragma once

#include "cli/command.h"

namespace rivulet {

Command ModelEvaluateCommand();

}  // namespace rivulet
