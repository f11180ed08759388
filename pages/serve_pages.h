// The pages of histories at their addresses (pages.h).
#pragma once

#include <string>
#include <vector>

#include "http/http_server.h"

namespace rivulet {

class LiveRun;

// Call it before Start. The histories at `files` are opened anew for each page, so a file may be replaced, and no
// reader delays a writer longer. `live`: the running run of this process, in the first of them, or null; must outlive
// the server.
void ServePages(HttpServer& server, const std::vector<std::string>& files, LiveRun* live);

}  // namespace rivulet
