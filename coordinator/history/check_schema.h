// Whether the tables of a file are those that this program makes: asked before anything is read from them, as a file
// may come from anybody. What SQLite would run of a file's own is refused or never looked at: triggers, generated
// columns, checks and indices of expressions are refused, and views of a file are not run at all (database.h): a
// history is read by views of the connection (UseOwnViews).
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
