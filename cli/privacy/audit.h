// The subcommand `rivulet privacy audit`.
#pragma once

#include "cli/command.h"

namespace rivulet {

Command PrivacyAuditCommand();

}  // namespace rivulet
