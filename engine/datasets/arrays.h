// Import of NumPy arrays (engine/io/npy.h, engine/io/npz.h) as examples: one row of x and its label in y.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "engine/data/progress.h"

namespace rivulet {

struct ArrayOptions {
  std::string from;        // a .npz file, or a folder of .npy files
  std::string out;         // the folder to write to, made if missing
  int64_t test_every = 0;  // every so manyth row is for the test; 0: as the arrays say
};

struct ArrayCounts {
  int64_t train = 0, test = 0;
  int64_t values = 0;   // of one example
  int64_t classes = 0;  // the largest label and one
  std::string feature;  // image, features or tokens
  bool has_key = false;
  std::vector<int64_t> shape;  // of a row
};

// Takes the arrays x_train, y_train and, where they are there, x_test and y_test (as Keras' files have them), or else x
// and y; beside them key_train, key_test or key, whole numbers that say whose row it is. Writes train.tfrecord and,
// where there are rows for it, test.tfrecord: of x's unsigned bytes "image" (bytes[n]), of its real numbers "features"
// (float[n]), of its other whole numbers "tokens" (int64[n]); "label", int64; "key", int64. Rows are flattened. All of
// x is held in memory. Both files appear complete, or neither is changed.
//
// NOT_FOUND: no such file or arrays. DATA_LOSS: damaged files (engine/io/npz.h), arrays of different lengths or without
// rows, an x that has no second dimension, values that are not finite or labels that are not whole numbers from 0.
StatusOr<ArrayCounts> ImportArrays(FileSystem& fs, const ArrayOptions& options, const DataProgress& progress = {});

}  // namespace rivulet
