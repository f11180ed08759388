// The target of an HTTP request: a path and its parameters, decoded.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace rivulet {

struct HttpTarget {
  std::string path;                                    // without '?', %XX decoded
  std::multimap<std::string, std::string> parameters;  // after '?', decoded, '+' as a blank
};

// Accepts any bytes: an invalid %XX stays as it is.
HttpTarget TargetOf(std::string_view text);

}  // namespace rivulet
