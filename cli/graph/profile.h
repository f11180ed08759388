// Command `rivulet graph profile`: the time of a step by layer, op and call.
#pragma once

#include "cli/command.h"

namespace rivulet {

Command GraphProfileCommand();

}  // namespace rivulet
