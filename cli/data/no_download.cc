// Replaces download.cc if libcurl is not installed.
#include "cli/data/download.h"

namespace rivulet {

bool DownloadIsBuilt() { return false; }

Status Download(const std::string&, const std::string&, int64_t, const DataProgress&) {
  return Unimplemented("this program was built without HTTPS; install libcurl4-openssl-dev and build it again");
}

}  // namespace rivulet
