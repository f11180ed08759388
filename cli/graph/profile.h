// rivulet graph profile: where the time of a step goes.
#pragma once

#include "cli/command.h"

namespace rivulet {

Command GraphProfileCommand();

}  // namespace rivulet
