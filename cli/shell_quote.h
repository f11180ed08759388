// Quoting of a word in a displayed command line, for copying into a shell.
#pragma once

#include <string>

namespace rivulet {

// `text` as /bin/sh reads it as one word: in single quotes where it needs any.
std::string ShellQuote(const std::string& text);

}  // namespace rivulet
