// Command of a site, shared by `rivulet client` and `rivulet-client`.
#pragma once

#include "cli/command.h"

namespace rivulet {

Command ClientCommand();
Command VerifyProofCommand();  // of rivulet-client alone

}  // namespace rivulet
