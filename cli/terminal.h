// The terminals that stderr and stdout may be.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rivulet {

// Style of progress on stderr: --quiet, --progress. Set once, before any work.
enum class ProgressStyle { kText, kJson, kQuiet };
void SetProgressStyle(ProgressStyle style);
ProgressStyle CurrentProgressStyle();

// Prints a message on stderr, in that style: a separate line, or {"progress": "note", "sentence": …}. With --quiet only
// important ones. `who` is the source, if there are several: before the message, or under "name".
enum class Note { kProgress, kImportant };
void PrintNote(const std::string& sentence, Note note, const std::string& who = "");

// Whether it supports updating lines, and these are wanted.
bool StderrIsTerminal();
// The number of characters in a line of it, minus one for the cursor; 79 if unknown.
size_t TerminalColumns();
// Width of a line of results: of stdout's terminal, else the environment's COLUMNS, else 100.
size_t ResultColumns();

// Coloured words, if stdout is a terminal and NO_COLOR is unset. Colour only repeats the words'
// meaning.
enum class Emphasis { kHeading, kGood, kBad, kFaint };
std::string Emphasised(Emphasis emphasis, std::string_view text);

}  // namespace rivulet
