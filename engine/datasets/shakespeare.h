// Plays as plain text: speeches separated by blank lines, each preceded by a line "SPEAKER:". Each speaker is a client.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "engine/data/progress.h"

namespace rivulet {

inline constexpr int64_t kWindowLength = 80;  // characters predicted in a window

struct Speech {
  std::string speaker;
  std::string text;  // lines joined by '\n', without the speaker's line
};

// Returns the speeches in order. A paragraph whose first line does not end in ':' continues the previous speech.
// DATA_LOSS names the line: text before the first speaker, or a speaker without a name or with more than 128 bytes.
StatusOr<std::vector<Speech>> ParseSpeeches(std::string_view text);

// One example: characters and their successors (engine/datasets/characters.h), both of length kWindowLength.
struct TextWindow {
  std::vector<int64_t> tokens, next;
};

// Concatenates one speaker's speeches, each between kBeginPassage and kEndPassage, and cuts them into windows. Every
// character but the first is predicted once; the last window is padded with kPadding.
std::vector<TextWindow> WindowsOf(const std::vector<std::string_view>& speeches);

struct ShakespeareCounts {
  int64_t train = 0, test = 0;  // windows
  int64_t speakers = 0;
};

// Reads the text file `from` and writes train.tfrecord and test.tfrecord to `out` (created if missing) with the
// features tokens (int64[80]), label (int64[80]) and speaker (bytes). Speakers are in order of appearance; every tenth
// speech of each is for the test. Either both are published complete, or neither is changed. NOT_FOUND; DATA_LOSS as
// above, or a text without speeches. Messages begin with the path.
StatusOr<ShakespeareCounts> ImportShakespeare(FileSystem& fs, const std::string& from, const std::string& out,
                                              const DataProgress& progress = {});

}  // namespace rivulet
