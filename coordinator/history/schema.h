// The schema of a history (docs/reference/history.md): tables, indices and views of this version, and migrations from older ones.
#pragma once

#include <string>

#include "coordinator/history/database.h"
#include "engine/base/status.h"

namespace rivulet {

// PRAGMA application_id: "RVLT". Tells a history from any other SQLite file.
inline constexpr int kHistoryApplicationId = 0x52564C54;
// PRAGMA user_version.
inline constexpr int64_t kHistoryVersion = 4;
// Older files are refused. Rivulet 0.1.0 is the last program that reads versions 1 and 2.
inline constexpr int64_t kOldestHistoryVersion = 3;

// CREATE statements. Views come apart: every migration makes them anew.
std::string TablesSql();
std::string ViewsSql();

// Within the caller's transaction, and with foreign keys off, to this version. Version 3 had an index of tasks by their
// clients, and its leaderboard went by the test set, also of a run that has a set for choosing between versions.
Status MigrateFrom3(Database& db);

}  // namespace rivulet
