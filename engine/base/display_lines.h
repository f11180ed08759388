// Display text of several lines: bytes from elsewhere, made fit for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace rivulet {

// `text` whole, with its ends of lines and tabs. Any other character that a name must not have (display_name.h) is
// written as TOML and JSON escape it in a string, "\u001B"; a byte that is not UTF-8 becomes '?'.
std::string DisplayLines(std::string_view text);

}  // namespace rivulet
