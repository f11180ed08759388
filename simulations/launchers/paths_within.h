// Paths of a scenario that came from another process, kept within one folder of this machine. The scenario may be
// hostile: for any of its paths, nothing outside the folder is opened or created.
#pragma once

#include <string>

#include "engine/base/status.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

// Replaces every path of the scenario: one that is below `folder` already is unchanged; for any other, the file's name
// alone is put into `folder`. Files need not exist. INVALID_ARGUMENT, with the key: a path without a file name ("/",
// "data/.."). FAILED_PRECONDITION: a link in the folder leads out of it.
Status PutPathsWithin(const std::string& folder, Scenario& scenario);

}  // namespace rivulet
