// A partition as files: what each client of a deployment trains on, in the order the simulator would use.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "engine/data/dataset.h"
#include "engine/data/progress.h"
#include "setup/partition.h"

namespace rivulet {

// Writes FOLDER/<client_id>.tfrecord for every share and returns the paths, in the shares' order. The folder is made
// when missing; all files appear, or none is changed. Progress is told in clients. INVALID_ARGUMENT, before anything is
// written: a client_id that cannot be a file's name.
StatusOr<std::vector<std::string>> WritePartitionFiles(FileSystem& fs, const Dataset& data,
                                                       std::span<const ClientShare> shares, const std::string& folder,
                                                       const DataProgress& progress = {});

}  // namespace rivulet
