// Result of a run, read from its history: the last output of `simulate`, `up` and `coordinator` on stdout.
#pragma once

#include <string>

#include "cli/run/options.h"
#include "engine/base/status.h"

namespace rivulet {

// "test accuracy 0.9712", the other metrics, the places of model and history; with `json` one object instead.
Status PrintResult(const std::string& db, const std::string& run_id, bool json);

// The error that ends an interrupted run: names the round reached and the command line that resumes it.
Status InterruptedError(const std::string& subcommand, const ScenarioOptions& options,
                        const std::string& more_arguments, const std::string& run_id);

}  // namespace rivulet
