// SQLite's files behind a hook: called before every write and around every sync of a database opened while it is
// installed.
#pragma once

#include <functional>
#include <string>

namespace rivulet {

// `at` gets "sqlite-write FILE", "sqlite-sync FILE", "sqlite-synced FILE"; false makes the operation fail for want of
// space. Stays installed for the life of the process; a second call replaces the hook.
void InstallFaultySqlite(std::function<bool(const std::string& point)> at);

}  // namespace rivulet
