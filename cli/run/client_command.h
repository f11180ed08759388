// What a site runs: `rivulet client` and `rivulet-client` are both this.
#pragma once

#include "cli/command.h"

namespace rivulet {

Command ClientCommand();

}  // namespace rivulet
