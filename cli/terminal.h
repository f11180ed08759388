// The terminals that stderr and stdout may be.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rivulet {

// Style of progress on stderr: --quiet, --progress. Set once, before anything runs.
enum class ProgressStyle { kText, kJson, kQuiet };
void SetProgressStyle(ProgressStyle style);
ProgressStyle CurrentProgressStyle();

// A sentence on stderr, in that style: a line of its own, or {"progress": "note", "sentence": …}. With --quiet only
// what somebody has to know is said. `who` is whose it is, where several are heard: before it, or under "name".
enum class Note { kProgress, kImportant };
void PrintNote(const std::string& sentence, Note note, const std::string& who = "");

// Whether lines can be drawn anew on it, and are wanted.
bool StderrIsTerminal();
// How many characters fit in a line of it, less the one where the cursor would wrap; 79 where that is not known.
size_t TerminalColumns();
// Width of a line of results: of stdout's terminal, else the environment's COLUMNS, else 100.
size_t ResultColumns();

// Words that stand out, by colour, where stdout is a terminal and nobody objects (NO_COLOR). Colour only repeats what
// the words say.
enum class Emphasis { kHeading, kGood, kBad, kFaint };
std::string Emphasised(Emphasis emphasis, std::string_view text);

}  // namespace rivulet
