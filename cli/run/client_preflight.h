// Option --preflight of a client: all checks possible before it is started for months.
#pragma once

#include "cli/run/client_options.h"

namespace rivulet {

// Looks at everything and stops at nothing, prints what it found, and calls the coordinator once, for no task.
// FAILED_PRECONDITION: something is to be mended.
Status PreflightClient(const ClientOptions& options);

}  // namespace rivulet
