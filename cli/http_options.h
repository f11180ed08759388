// The options of commands that serve pages: --http, --http-token, --http-tls.
#pragma once

#include <string>

#include "cli/command.h"
#include "http/http_server.h"

namespace rivulet {

// Declares --http, --http-token and --http-tls. `what` is the help of --http: "serve pages of this run". Declares
// nothing if this program was built without an HTTP library.
void AddHttpOptions(Command& command, HttpOptions* options, const std::string& what);
// " --http ADDR …" with the given options, for a shell.
std::string ShellArguments(const HttpOptions& options);

}  // namespace rivulet
