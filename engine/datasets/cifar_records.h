// The binary format of CIFAR-10 and CIFAR-100 (Krizhevsky, "Learning Multiple Layers of Features from Tiny Images",
// 2009). A record has one or two label bytes and 3,072 pixel bytes: 1,024 red, 1,024 green and 1,024 blue ones, each in
// row-major order.
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
  int most;  // the largest valid label
};

// Appends a file's records to `writer`. The file is raw, or packed if its name ends in .gz. Examples have "image",
// bytes[3072] as [32,32,3] (height, width, channel), and an int64 for each of `labels`, in the order of the label
// bytes. DATA_LOSS names path and record: no records, a truncated record, or a label above its largest.
Status AppendCifarRecords(const std::string& path, std::span<const CifarLabel> labels, const DataProgress& progress,
                          RecordWriter& writer);

}  // namespace rivulet
