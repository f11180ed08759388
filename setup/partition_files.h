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

// Writes FOLDER/<client_id>.tfrecord for every client with examples and returns the paths, in the clients' order.
// Creates the folder if missing; either all files appear, or none is changed. Progress counts clients.
// INVALID_ARGUMENT, before any write: a name that cannot be a file's.
StatusOr<std::vector<std::string>> WritePartitionFiles(FileSystem& fs, const Dataset& data, const Shares& shares,
                                                       const std::string& folder, const DataProgress& progress = {});

}  // namespace rivulet
