// Subcommands `rivulet model point`, `rollback` and `points`: labels of served names.
#pragma once

#include "cli/command.h"

namespace rivulet {

Command ModelPointCommand();
Command ModelRollbackCommand();
Command ModelPointsCommand();

}  // namespace rivulet
