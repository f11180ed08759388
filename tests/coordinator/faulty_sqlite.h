// SQLite's files behind a hook: called before every write and around every sync of a database opened while it is
// installed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace rivulet {

// `at` gets "sqlite-write FILE", "sqlite-sync FILE", "sqlite-synced FILE"; false makes the operation fail for want of
// space. Stays installed for the life of the process; a second call replaces the hook.
void InstallFaultySqlite(std::function<bool(const std::string& point)> at);

// `before` hears of each range of bytes that a write or a new length is about to change, while what lies there is still
// to be read. Null: nobody hears. Before InstallFaultySqlite or after it.
void WatchSqliteWrites(std::function<void(const std::string& file, int64_t from, int64_t to)> before);

}  // namespace rivulet
