// A word of a command line that is shown, to be copied into a shell.
#pragma once

#include <string>

namespace rivulet {

// `text` as /bin/sh reads it as one word: in single quotes where it needs any.
std::string ShellQuote(const std::string& text);

}  // namespace rivulet
