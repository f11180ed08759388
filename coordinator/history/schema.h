// The tables of a history (docs/history.md) and the migrations that lead to them, one script per version. PRAGMA
// user_version counts the scripts that have run; a script never changes once released.
#pragma once

#include <span>

namespace rivulet {

// PRAGMA application_id: "RVLT". Tells a history from any other SQLite file.
inline constexpr int kHistoryApplicationId = 0x52564C54;

// scripts[i] leads from version i to version i + 1.
std::span<const char* const> HistoryMigrations();

}  // namespace rivulet
