// The pages of histories at their addresses (pages.h).
#pragma once

#include <string>
#include <vector>

#include "http/http_server.h"

namespace rivulet {

class LiveRun;

// To be called before Start. The histories at `files` are opened anew for each page, so that a file may be replaced and
// no reader stands in a writer's way for longer. `live`: what goes on in this process, in the first of them, or null;
// must outlive the server.
void ServePages(HttpServer& server, const std::vector<std::string>& files, LiveRun* live);

}  // namespace rivulet
