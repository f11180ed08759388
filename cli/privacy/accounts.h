// The subcommand `rivulet privacy accounts`.
#pragma once

#include "cli/command.h"

namespace rivulet {

Command PrivacyAccountsCommand();

}  // namespace rivulet
