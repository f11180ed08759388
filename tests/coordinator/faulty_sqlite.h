// SQLite's files behind a hook: called before every write and around every sync of a database opened while it is
// installed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace rivulet {

// `at` gets "sqlite-write FILE", "sqlite-sync FILE", "sqlite-synced FILE"; false makes the operation fail for lack of
// space. Stays installed for the life of the process; a second call replaces the hook.
void InstallFaultySqlite(std::function<bool(const std::string& point)> at);

// Calls `before` with each range of bytes that a write or truncation is about to change, while the old bytes can still
// be read. Null: removes the hook. Call before or after InstallFaultySqlite.
void WatchSqliteWrites(std::function<void(const std::string& file, int64_t from, int64_t to)> before);

}  // namespace rivulet
