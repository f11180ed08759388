// The paths in a scenario: keys that name files, and such options of registered pieces.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "federated/scenario/scenario.h"

namespace rivulet {

// Calls `visit` with each given path, which it may change; for a list of NAME=PATH, with each path. Parsing has made
// the paths absolute; some are patterns of files.
void ForEachPath(Scenario& scenario, const std::function<void(std::string_view key, std::string& path)>& visit);

}  // namespace rivulet
