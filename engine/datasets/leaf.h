// Import of LEAF's JSON (Caldas et al., "LEAF: A Benchmark for Federated Settings", 2018): FEMNIST, Shakespeare, the
// synthetic sets, and other data in this layout. A file is
//
//   {"users": ["u0", …], "num_samples": [2, …], "user_data": {"u0": {"x": [sample, …], "y": [label, …]}, …}}
//
// where a sample is a list of numbers, possibly nested, and its label a whole number, or a sample is a text and its
// label the character that follows. Each user is a client.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "engine/data/progress.h"

namespace rivulet {

struct LeafOptions {
  std::string from;     // a file, raw or .gz; a folder of *.json; or one with train/ and optionally test/
  std::string out;      // output folder, created if missing
  bool pixels = false;  // numbers are pixels from 0 to 1
};

struct LeafCounts {
  int64_t train = 0, test = 0;              // examples
  int64_t train_users = 0, test_users = 0;  // users with examples
  bool has_test = false;
  std::string feature;  // features, image or tokens
  int64_t values = 0;   // per example
  int64_t classes = 0;  // the largest numeric label plus one
};

// Writes train.tfrecord and, from a folder test/, test.tfrecord, user by user in file order. Every example has "user"
// (bytes). Numbers become "features" (float[n]) and "label" (int64), or with `pixels` "image" (bytes[n], 255 times the
// number, rounded) and "label". Texts become "tokens" (int64[n]) and "label" (int64[n]), the next character at each
// position, in the vocabulary of engine/datasets/characters.h. Users without samples are skipped. Memory is
// proportional to the largest user's data. Either both files are published complete, or neither is changed.
//
// NOT_FOUND: no such files. DATA_LOSS: not JSON of this layout, a user who is not in "users", numbers of samples that
// differ from the file's, samples of different sizes or kinds, an invalid label, a number that is not finite or, for
// pixels, not from 0 to 1; no samples at all. Messages begin with the path and name the user and the sample, or the
// byte.
StatusOr<LeafCounts> ImportLeaf(FileSystem& fs, const LeafOptions& options, const DataProgress& progress = {});

}  // namespace rivulet
