// Option --preflight of a client: all checks that are possible before a client starts, which then runs for months.
#pragma once

#include "cli/run/client_options.h"

namespace rivulet {

// Runs all checks, prints the findings, and calls the coordinator once, without taking a task. FAILED_PRECONDITION: a
// check failed.
Status PreflightClient(const ClientOptions& options);

}  // namespace rivulet
