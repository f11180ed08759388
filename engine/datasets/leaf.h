// LEAF's JSON (Caldas et al., "LEAF: A Benchmark for Federated Settings", 2018): FEMNIST, Shakespeare, the synthetic
// sets, and other data in this layout. A file is
//
//   {"users": ["u0", …], "num_samples": [2, …], "user_data": {"u0": {"x": [sample, …], "y": [label, …]}, …}}
//
// where a sample is a list of numbers, nested or not, and its label a whole number, or a sample is a text and its label
// the character that follows. The user is the client.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "engine/data/progress.h"

namespace rivulet {

struct LeafOptions {
  std::string from;     // a file, raw or .gz; a folder of *.json; or one with the folders train/ and perhaps test/
  std::string out;      // the folder to write to, made if missing
  bool pixels = false;  // numbers are pixels from 0 to 1
};

struct LeafCounts {
  int64_t train = 0, test = 0;              // examples
  int64_t train_users = 0, test_users = 0;  // who have any
  bool has_test = false;
  std::string feature;  // features, image or tokens
  int64_t values = 0;   // of one example
  int64_t classes = 0;  // the largest label of numbers and one
};

// Writes train.tfrecord and, of a folder test/, test.tfrecord, user by user in the order of the files. Every example
// has "user" (bytes) and, of numbers, "features" (float[n]) and "label" (int64), or with `pixels` "image" (bytes[n], of
// 255 times the number, rounded) and "label"; of texts "tokens" (int64[n]) and "label" (int64[n]), the character after
// each in the vocabulary of engine/datasets/characters.h. A user without samples gives none. Memory follows the largest
// user's data. Both files appear complete, or neither is changed.
//
// NOT_FOUND: no such files. DATA_LOSS: no JSON of this layout, data of a user who is not in "users", other numbers of
// samples than the file says, samples of different sizes or kinds, a label that is no class, a number that is not
// finite or, of pixels, not from 0 to 1; no samples at all. Messages begin with the path and say the user and the
// sample, or the byte.
StatusOr<LeafCounts> ImportLeaf(FileSystem& fs, const LeafOptions& options, const DataProgress& progress = {});

}  // namespace rivulet
