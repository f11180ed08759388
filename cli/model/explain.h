// Subcommand `rivulet model explain`: the clients, rounds and data behind a version that is served.
#pragma once

#include "cli/command.h"

namespace rivulet {

Command ModelExplainCommand();

}  // namespace rivulet
