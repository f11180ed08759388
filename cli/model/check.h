// Command `rivulet model check`.
#pragma once

#include "cli/command.h"

namespace rivulet {

Command OnnxCheckCommand();

}  // namespace rivulet
