// Quoting of a word in a displayed command line, for copying into a shell.
#pragma once

#include <string>

namespace rivulet {

// `text` as one word for /bin/sh: in single quotes if necessary.
std::string ShellQuote(const std::string& text);

}  // namespace rivulet
