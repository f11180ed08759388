// The binary version of CIFAR-10 and CIFAR-100 (Krizhevsky, "Learning Multiple Layers of Features from Tiny Images",
// 2009). A record is one label byte, or two, and 3,072 pixel bytes: 1,024 red, 1,024 green, 1,024 blue, each row by
// row.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/data/progress.h"
#include "engine/data/tfrecord.h"

namespace rivulet {

struct CifarLabel {
  std::string_view feature;
  int most;  // the largest label
};

// Appends a file's records to `writer`, raw or, where its name ends in .gz, packed: examples of "image", bytes[3072] as
// [32,32,3] (height, width, channel), and an int64 for each of `labels`, whose bytes stand in this order. DATA_LOSS: no
// records, one that is cut off, a label beyond its largest; by path and record.
Status AppendCifarRecords(const std::string& path, std::span<const CifarLabel> labels, const DataProgress& progress,
                          RecordWriter& writer);

}  // namespace rivulet
