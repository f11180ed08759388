// Check that a file's tables are those of this program, before any read, since a file may come from anyone. SQLite must
// not run code of the file. Triggers, generated columns, checks and indices of expressions are refused. Views of a file
// are never run (database.h): a history is read by views of the connection (UseOwnViews).
#pragma once

#include <string>

#include "coordinator/history/database.h"
#include "engine/base/status.h"

namespace rivulet {

// Of the database attached as `schema` ("main") in the file `path`, a history of `version`. DATA_LOSS says which table
// is another, or what there is that no program of ours makes. What a user has added beside them stays: tables and views
// of other names, and indices of plain columns.
Status CheckSchema(Database& db, const std::string& schema, const std::string& path, int64_t version);

// The views of docs/reference/history.md over the tables of "main", for this connection alone.
Status UseOwnViews(Database& db);

}  // namespace rivulet
