// The paths that a scenario holds: keys that name files, and options of registered pieces that do.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "federated/scenario/scenario.h"

namespace rivulet {

// Calls `visit` with each path that is given, which it may change; of a list of NAME=PATH with each path. Absolute
// paths, as parsing leaves them; some are patterns of files.
void ForEachPath(Scenario& scenario, const std::function<void(std::string_view key, std::string& path)>& visit);

}  // namespace rivulet
