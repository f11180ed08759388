// Redirects of a server: only to its own pages, for any form of the request's target.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace rivulet {

// A Location of `path` with the parameters `query`, both decoded. It begins with one '/', and all but letters, digits
// and "-._~/" is escaped: browsers read "//host", "/\host" and "/<TAB>/host" as another host (WHATWG URL, "relative
// slash state"). "/" if `path` begins otherwise.
std::string SameOriginLocation(std::string_view path, const std::multimap<std::string, std::string>& query);

}  // namespace rivulet
