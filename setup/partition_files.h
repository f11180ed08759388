// Files of a partition: the training data of each client of a deployment, in the simulator's order.
#pragma once

#include <string>
#include <vector>

#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "engine/data/dataset.h"
#include "engine/data/progress.h"
#include "setup/partitioners/shares.h"

namespace rivulet {

// Writes FOLDER/<client_id>.tfrecord for every client that has examples and returns the paths, in the clients' order.
// The folder is made when missing; all files appear, or none is changed. Progress is told in clients. INVALID_ARGUMENT,
// before anything is written: a name that cannot be a file's.
StatusOr<std::vector<std::string>> WritePartitionFiles(FileSystem& fs, const Dataset& data, const Shares& shares,
                                                       const std::string& folder, const DataProgress& progress = {});

}  // namespace rivulet
