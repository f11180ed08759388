// Check that a file's tables are those of this program, before any read, since a file may come from anyone. SQLite must
// not run code of the file. Triggers, generated columns, checks and indices of expressions are refused. Views of a file
// are never run (database.h): a history is read by views of the connection (UseOwnViews).
#pragma once

#include <string>

#include "coordinator/history/database.h"
#include "engine/base/status.h"

namespace rivulet {

// Checks the database attached as `schema` ("main") in the file `path`, a history of `version`. DATA_LOSS names the
// table that differs, or an object that this program never creates. A user's own additions are allowed: tables and
// views of other names, and indices of plain columns.
Status CheckSchema(Database& db, const std::string& schema, const std::string& path, int64_t version);

// Creates the views of docs/reference/history.md over the tables of "main", for this connection alone.
Status UseOwnViews(Database& db);

}  // namespace rivulet
