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

// Of any bytes: what is no %XX stays as it is.
HttpTarget TargetOf(std::string_view text);

}  // namespace rivulet
