// Opening of a database in a read-only folder. SQLite has no place for the shared memory of a write-ahead log there,
// and reads the file as immutable.
#pragma once

#include <string>

struct sqlite3;

namespace rivulet {

// Whether `db`, just opened from `path`, can only be read as immutable, and has no log that this would
// ignore.
bool MustBeImmutable(sqlite3* db, const std::string& path);
// Gives the URI for sqlite3_open_v2 with SQLITE_OPEN_URI.
std::string ImmutableUri(const std::string& path);

}  // namespace rivulet
