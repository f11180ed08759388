// Import of plain text as windows of characters (engine/datasets/shakespeare.h defines windows, and plays by speaker).
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "engine/data/progress.h"

namespace rivulet {

struct TextOptions {
  std::string from;        // a file, uncompressed or .gz, or a folder of *.txt
  std::string out;         // output folder, created if missing
  bool by_line = false;    // every line is a separate passage; otherwise every file is one
  int64_t test_every = 0;  // every test_every-th line or window is for the test; 0: none
};

struct TextCounts {
  int64_t train = 0, test = 0;  // windows
  int64_t sources = 0;          // files
};

// Writes train.tfrecord and, if requested, test.tfrecord with the features "tokens" (int64[80]), "label" (int64[80])
// and "source" (bytes: the file's name without its ending, so that a file can be a client), in order of file names. A
// passage begins with kBeginPassage, ends with kEndPassage and is cut into windows; the last is padded. Empty lines are
// skipped. Memory follows the largest file. Either both files are published complete, or neither is changed.
//
// NOT_FOUND: no such file, or a folder without *.txt. DATA_LOSS: a file without text, or with a NUL; a file name that
// is no valid client name.
StatusOr<TextCounts> ImportText(FileSystem& fs, const TextOptions& options, const DataProgress& progress = {});

}  // namespace rivulet
