// Matching of names against wildcard patterns.
#pragma once

#include <string_view>

namespace rivulet {

// '*' in `pattern` stands for any characters, or none, and every other character for itself.
bool MatchesWildcard(std::string_view pattern, std::string_view name);

}  // namespace rivulet
