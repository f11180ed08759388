// Formatting of foreign text for terminals and error messages: one line, bounded length, no control characters.
#pragma once

#include <string>
#include <string_view>

namespace rivulet {

// A message as one line of UTF-8 that shows: line breaks and control characters become spaces, bytes that are no text
// and marks that turn a terminal's direction '?'.
std::string OneLine(std::string_view message);

// What somebody gave, to be named in a sentence: with more than 80 characters its first 79 and "…".
std::string Shortened(std::string_view text);

// A message as its sentence in one line, and what explains it (Sentence(), engine/base/status.h) on at most 16 lines of
// their own, without control characters. Words of more than 400 characters are shortened, and so is what is still of
// more than 900: a sentence names what is wrong with the input and does not repeat it.
std::string ErrorLines(std::string_view message);

}  // namespace rivulet
