// `rivulet help keys [PATTERN]`: the keys of scenarios and the options of algorithms, selections and attacks, from
// the tables that the reference is printed from.
#pragma once

#include <span>
#include <string>

#include "engine/base/status.h"

namespace rivulet {

// Prints them where `words` begins with "keys"; false: it names another topic. A pattern with '*' is compared with
// whole names, a section names all of its keys, and any other word is looked for in names. NOT_FOUND: no key is like
// it.
StatusOr<bool> PrintHelpOfKeys(std::span<const std::string> words);

}  // namespace rivulet
