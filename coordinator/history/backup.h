// Consistent copy of a history with its models, made while runs write to it.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/file_system.h"
#include "engine/base/status.h"

namespace rivulet {

struct Backup {
  int64_t runs = 0, files = 0, bytes = 0;  // of the models' and plans' files, besides the history
};
// Copies the history `from` to `to` with its runs' files to "<to>.models/", by SQLite's backup interface, which
// does not block readers and writers of `from`. Each run in the copy can be resumed: its last written version
// is included. An older version that is removed during the copy counts as removed. `to` appears last and
// complete. An error may leave files without rows; the remains of a killed call (engine/base/temporary_name.h)
// are removed by the next backup to `to`. ALREADY_EXISTS: `to` exists. Other errors are those of History::Open
// and of `fs`.
StatusOr<Backup> BackUpHistory(FileSystem& fs, const std::string& from, const std::string& to);

}  // namespace rivulet
