// Plays as plain text: speeches separated by blank lines, each begun by a line "SPEAKER:". The speaker is the client.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "engine/data/progress.h"

namespace rivulet {

inline constexpr int64_t kWindowLength = 80;  // characters that a window predicts

struct Speech {
  std::string speaker;
  std::string text;  // lines joined by '\n', without the speaker's
};

// The speeches in their order. A paragraph whose first line does not end in ':' goes on with the speech before it.
// DATA_LOSS names the line: text before the first speaker, a speaker without a name or with more than 128 bytes.
StatusOr<std::vector<Speech>> ParseSpeeches(std::string_view text);

// One example: the characters and, for each, the next one (engine/datasets/characters.h), both kWindowLength long.
struct TextWindow {
  std::vector<int64_t> tokens, next;
};

// The speeches of one speaker, each between kBeginPassage and kEndPassage, as one stream cut into windows. Every
// character but the first is predicted once; the last window ends in kPadding.
std::vector<TextWindow> WindowsOf(const std::vector<std::string_view>& speeches);

struct ShakespeareCounts {
  int64_t train = 0, test = 0;  // windows
  int64_t speakers = 0;
};

// Reads the text file `from` and writes train.tfrecord and test.tfrecord to `out` (made if missing) with the features
// tokens (int64[80]), label (int64[80]) and speaker (bytes): speaker by speaker in order of appearance, every tenth
// speech of each for the test. Both appear complete, or neither is changed. NOT_FOUND; DATA_LOSS as above, or a text
// without speeches; messages begin with the path.
StatusOr<ShakespeareCounts> ImportShakespeare(FileSystem& fs, const std::string& from, const std::string& out,
                                              const DataProgress& progress = {});

}  // namespace rivulet
