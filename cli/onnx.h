// rivulet model check and rivulet model import.
#pragma once

#include "cli/command.h"

namespace rivulet {

Command OnnxCheckCommand();
Command OnnxImportCommand();

}  // namespace rivulet
