// What searches keep in the tree: `corpora/TARGET`, a TFRecord file of small inputs that reach what a target's seeds do
// not. The next search begins with them, and every build tries them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/base/status.h"

namespace rivulet::fuzz {

// The inputs of such a file. Errors are those of RecordReader.
StatusOr<std::vector<std::string>> ReadCorpus(const std::string& path);

// Writes the files of `folder` as one such file, the smallest first, until the next would bring their sizes beyond
// `most_bytes`; how many there are. Which of equal size come first is told by their names. FAILED_PRECONDITION: there
// is none, as where what was to fill the folder did nothing.
StatusOr<size_t> PackCorpus(const std::string& folder, size_t most_bytes, const std::string& path);

}  // namespace rivulet::fuzz
