// Schema of a history (docs/reference/history.md): tables, indices and views of this version, and migrations from older
// ones.
#pragma once

#include <algorithm>
#include <string>

#include "coordinator/history/database.h"
#include "coordinator/history/tables.h"
#include "engine/base/status.h"

namespace rivulet {

// PRAGMA application_id: "RVLT". Distinguishes a history from other SQLite files.
inline constexpr int kHistoryApplicationId = 0x52564C54;
// PRAGMA user_version: the version of the newest column or table.
inline constexpr int64_t kHistoryVersion =
    std::max({int64_t{kFirstHistory}, NewestColumn<StoredAttempt>(), NewestColumn<StoredTask>(),
              SqlTable<StoredPointer>::kSince, SqlTable<StoredRecord>::kSince});
// Older files are refused. Rivulet 0.1.0 is the last program that reads versions 1 and 2.
inline constexpr int64_t kOldestHistoryVersion = 3;

// CREATE statements of `version`. Views are separate: every migration creates them anew.
std::string TablesSql(int64_t version = kHistoryVersion);
std::string ViewsSql();

// Migrates `version` to this one, in the caller's transaction and with foreign keys off: adds columns and tables, and
// creates views anew. Version 3 had an index of tasks by client, and its leaderboard used the test set even for runs
// with a validation set.
Status Migrate(Database& db, int64_t version);

}  // namespace rivulet
