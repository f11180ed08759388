// Import of CIFAR-10's binary version (engine/datasets/cifar_records.h) as TFRecord files.
#pragma once

#include <string>

#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "engine/data/progress.h"

namespace rivulet {

struct Cifar10Counts {
  int64_t train = 0, test = 0;
};

// Reads `from`/data_batch*.bin and test_batch*.bin, raw or .gz, in order of their names. Writes `out`/train.tfrecord
// and test.tfrecord: examples of "image", bytes[3072] as [32,32,3] (height, width, channel), and "label", int64. Either
// both files are published complete, or neither. NOT_FOUND: no such files. DATA_LOSS names the file and record that is
// invalid.
StatusOr<Cifar10Counts> ImportCifar10(FileSystem& fs, const std::string& from, const std::string& out,
                                      const DataProgress& progress = {});

}  // namespace rivulet
