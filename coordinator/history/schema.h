// Schema of a history (docs/reference/history.md): tables, indices and views of this version, and migrations from older
// ones.
#pragma once

#include <algorithm>
#include <string>

#include "coordinator/history/database.h"
#include "coordinator/history/tables.h"
#include "engine/base/status.h"

namespace rivulet {

// PRAGMA application_id: "RVLT". Tells a history from any other SQLite file.
inline constexpr int kHistoryApplicationId = 0x52564C54;
// PRAGMA user_version: that of the newest column or table.
inline constexpr int64_t kHistoryVersion =
    std::max({int64_t{kFirstHistory}, NewestColumn<StoredAttempt>(), NewestColumn<StoredTask>(),
              SqlTable<StoredPointer>::kSince, SqlTable<StoredRecord>::kSince});
// Older files are refused. Rivulet 0.1.0 is the last program that reads versions 1 and 2.
inline constexpr int64_t kOldestHistoryVersion = 3;

// CREATE statements of `version`. Views come apart: every migration makes them anew.
std::string TablesSql(int64_t version = kHistoryVersion);
std::string ViewsSql();

// Within the caller's transaction, and with foreign keys off, from `version` to this one: columns and tables are added,
// views are made anew. Version 3 had an index of tasks by their clients, and its leaderboard went by the test set, also
// of a run that has a set for choosing between versions.
Status Migrate(Database& db, int64_t version);

}  // namespace rivulet
