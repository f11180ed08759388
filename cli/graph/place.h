// `rivulet graph place`.
#pragma once

#include "cli/command.h"

namespace rivulet {

Command GraphPlaceCommand();

}  // namespace rivulet
