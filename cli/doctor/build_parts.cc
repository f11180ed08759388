#include "cli/doctor/build_parts.h"

#include <algorithm>
#include <string_view>

namespace rivulet {
namespace {

// From cli/CMakeLists.txt: "pages over HTTP|PNG".
std::vector<std::string> Parts(std::string_view list) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find('|', begin), list.size());
    parts.emplace_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

BuildParts PartsOfThisBuild() { return {Parts(RIVULET_BUILT_WITH), Parts(RIVULET_BUILT_WITHOUT)}; }

}  // namespace rivulet
