// Which optional parts this program was built with, and which without: "pages over HTTP", "PNG".
#pragma once

#include <string>
#include <vector>

namespace rivulet {

struct BuildParts {
  std::vector<std::string> with, without;
};
BuildParts PartsOfThisBuild();

}  // namespace rivulet
