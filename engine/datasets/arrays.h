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
  std::string out;         // output folder, created if missing
  int64_t test_every = 0;  // every test_every-th row is a test row; 0: as the arrays say
};

struct ArrayCounts {
  int64_t train = 0, test = 0;
  int64_t values = 0;   // per example
  int64_t classes = 0;  // the largest label plus one
  std::string feature;  // image, features or tokens
  bool has_key = false;
  std::vector<int64_t> shape;  // of a row
};

// Reads the arrays x_train, y_train and, if present, x_test and y_test (as in Keras' files); otherwise x and y.
// Optional key_train, key_test or key are whole numbers that identify each row's client. Writes train.tfrecord and, if
// there are test rows, test.tfrecord. Unsigned bytes x become "image" (bytes[n]), real numbers "features" (float[n]),
// other whole numbers "tokens" (int64[n]); "label" and "key" are int64. Rows are flattened. All of x is held in memory.
// Either both files are published complete, or neither is changed.
//
// NOT_FOUND: no such file or arrays. DATA_LOSS: damaged files (engine/io/npz.h), arrays of different lengths or without
// rows, x without a second dimension, values that are not finite, labels that are not whole numbers from 0.
StatusOr<ArrayCounts> ImportArrays(FileSystem& fs, const ArrayOptions& options, const DataProgress& progress = {});

}  // namespace rivulet
