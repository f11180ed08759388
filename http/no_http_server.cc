// Replaces http_server.cc and beast_server.cc if Boost is not installed.
#include "http/http_server.h"

namespace rivulet {

bool HttpServer::IsBuilt() { return false; }

StatusOr<std::unique_ptr<HttpServer>> HttpServer::Create(const HttpOptions&, std::function<void(const std::string&)>) {
  return Unimplemented("this program was built without HTTP; install libboost-dev and build it again");
}

}  // namespace rivulet
