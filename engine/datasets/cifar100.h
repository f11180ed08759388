// Import of CIFAR-100's binary version (engine/datasets/cifar_records.h) as TFRecord files.
#pragma once

#include <string>

#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "engine/data/progress.h"

namespace rivulet {

struct Cifar100Counts {
  int64_t train = 0, test = 0;
};

// Reads `from`/train.bin and test.bin, raw or .gz, and writes `out`/train.tfrecord and test.tfrecord: examples of
// "image", bytes[3072] as [32,32,3] (height, width, channel), "label", int64, one of the 100 classes, and
// "coarse_label", int64, one of the 20 superclasses. Either both files are published complete, or neither. NOT_FOUND:
// no such files. DATA_LOSS names the file and record that is invalid.
StatusOr<Cifar100Counts> ImportCifar100(FileSystem& fs, const std::string& from, const std::string& out,
                                        const DataProgress& progress = {});

}  // namespace rivulet
