// Optional parts of this build, present and absent: "pages over HTTP", "PNG".
#pragma once

#include <string>
#include <vector>

namespace rivulet {

struct BuildParts {
  std::vector<std::string> with, without;
};
BuildParts PartsOfThisBuild();

}  // namespace rivulet
