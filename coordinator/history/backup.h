// Consistent copy of a history with its models, made while runs write to it.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/file_system.h"
#include "engine/base/status.h"

namespace rivulet {

struct Backup {
  int64_t runs = 0, files = 0, bytes = 0;  // of the models' and plans' files, the history's own beside them
};
// Copies the history `from` to `to` with what its runs keep to "<to>.models/", by SQLite's backup interface: readers
// and writers of `from` are not in its way, nor it in theirs. A run in it can be resumed: the version that it has last
// written is there. An older version that was pruned meanwhile is one that was pruned. `to` appears last and whole;
// what an error leaves behind are files without rows; what a
// killed call leaves of its copy (engine/base/temporary_name.h) goes with the next backup to `to`. ALREADY_EXISTS:
// something is at `to`. Otherwise History::Open's errors, and those of `fs`.
StatusOr<Backup> BackUpHistory(FileSystem& fs, const std::string& from, const std::string& to);

}  // namespace rivulet
