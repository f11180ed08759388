// `rivulet graph worker`.
#pragma once

#include "cli/command.h"

namespace rivulet {

Command GraphWorkerCommand();

}  // namespace rivulet
