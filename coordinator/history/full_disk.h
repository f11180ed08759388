// Detection of a full disk in an error of SQLite, whose code for that is one of several.
#pragma once

#include <string>

struct sqlite3;

namespace rivulet {

// `db` in the file `path`, whose last call gave the extended code `code`.
bool IsFullDisk(sqlite3* db, int code, const std::string& path);

}  // namespace rivulet
