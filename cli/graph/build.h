// `rivulet graph build`.
#pragma once

#include "cli/command.h"

namespace rivulet {

Command GraphBuildCommand();

}  // namespace rivulet
