// `rivulet help keys [PATTERN]`: the keys of scenarios and the options of algorithms, selections and attacks, from
// the tables that the reference is printed from.
#pragma once

#include <span>
#include <string>

#include "engine/base/status.h"

namespace rivulet {

// Prints keys if `words` begins with "keys"; false: it is another topic. A pattern with '*' is matched against
// whole names, a section selects all its keys, and any other word is searched in names. NOT_FOUND: no key
// matches.
StatusOr<bool> PrintHelpOfKeys(std::span<const std::string> words);

}  // namespace rivulet
