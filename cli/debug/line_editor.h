// Input of lines from a terminal: edited, with history and completion if the line library was found at build time.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rivulet {

// Completions of the last word of `line`.
using CompleteFn = std::function<std::vector<std::string>(std::string_view line, std::string_view word)>;

// The next line, without its end; nullopt at the end of input. Empty lines and repetitions are not put into the
// history. One thread at a time.
std::optional<std::string> ReadLine(const std::string& prompt, const CompleteFn& complete);

}  // namespace rivulet
