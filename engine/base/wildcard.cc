#include "engine/base/wildcard.h"

namespace rivulet {

// Without recursion: the last star takes one character more whenever what follows it does not fit.
bool MatchesWildcard(std::string_view pattern, std::string_view name) {
  size_t at = 0, star = std::string_view::npos, resume = 0, p = 0;
  while (at < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = at;
    } else if (p < pattern.size() && pattern[p] == name[at]) {
      ++p;
      ++at;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      at = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

}  // namespace rivulet
