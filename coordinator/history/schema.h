// The schema of a history (docs/reference/history.md): tables, indices and views of this version, and what leads there from older
// ones.
#pragma once

#include <string>

#include "coordinator/history/database.h"
#include "engine/base/status.h"

namespace rivulet {

// PRAGMA application_id: "RVLT". Tells a history from any other SQLite file.
inline constexpr int kHistoryApplicationId = 0x52564C54;
// PRAGMA user_version.
inline constexpr int64_t kHistoryVersion = 4;

// CREATE statements. Views come apart, since a migration fills tables whose names they will have.
std::string TablesSql();
std::string ViewsSql();

// Within the caller's transaction, and with foreign keys off, to this version. Version 2 knew of no operators; version
// 3 had an index of tasks by their clients, and its leaderboard went by the test set, also of a run that has a set for
// choosing between versions.
Status MigrateFrom1(Database& db);
Status MigrateFrom2(Database& db);
Status MigrateFrom3(Database& db);

}  // namespace rivulet
