// Import of plain text as windows of characters (engine/datasets/shakespeare.h has the windows, and plays by speaker).
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "engine/data/progress.h"

namespace rivulet {

struct TextOptions {
  std::string from;        // a file, plain or .gz, or a folder of *.txt
  std::string out;         // the folder to write to, made if missing
  bool by_line = false;    // every line is a passage of its own; otherwise every file is one
  int64_t test_every = 0;  // every so manyth line, or window, is for the test; 0: none
};

struct TextCounts {
  int64_t train = 0, test = 0;  // windows
  int64_t sources = 0;          // files
};

// Writes train.tfrecord and, where asked for, test.tfrecord with the features "tokens" (int64[80]), "label" (int64[80])
// and "source" (bytes: the file's name without its ending, so that a file can be a client), files in order of their
// names. A passage begins with kBeginPassage, ends with kEndPassage and is cut into windows; its last is padded. Lines
// without characters are none. Memory follows the largest file. Both files appear complete, or neither is changed.
//
// NOT_FOUND: no such file, a folder without *.txt. DATA_LOSS: a file without text, or with a NUL; a name that cannot be
// a client's.
StatusOr<TextCounts> ImportText(FileSystem& fs, const TextOptions& options, const DataProgress& progress = {});

}  // namespace rivulet
