#include "coordinator/history/check_schema.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "coordinator/history/schema.h"
#include "engine/base/mutex.h"

namespace rivulet {
namespace {

// SQLite's names ignore case.
std::string Lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// A statement with each run of blanks replaced by one: SQLite stores a statement's text as it was written.
std::string Normal(std::string_view sql) {
  std::string text;
  for (const char c : sql) {
    const bool blank = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (blank && (text.empty() || text.back() == ' ')) continue;
    text += blank ? ' ' : c;
  }
  return text;
}

struct Object {
  std::string type, table, sql;
};
using Objects = std::map<std::string, Object>;  // by name

StatusOr<Objects> ObjectsOf(Database& db, const std::string& schema) {
  Objects objects;
  RIVULET_RETURN_IF_ERROR(db.Query(
      fmt::format("SELECT name, type, tbl_name, sql FROM {}.sqlite_master", schema), {}, [&](const SqlRow& row) {
        objects[Lower(row.Text(0))] = {row.Text(1), Lower(row.Text(2)), Normal(row.Text(3))};
      }));
  return objects;
}

// The objects that TablesSql creates for a readable version, as SQLite stores them.
StatusOr<Objects> MakeOwnObjects(int64_t version) {
  RIVULET_ASSIGN_OR_RETURN(const std::unique_ptr<Database> db, Database::OpenInMemory());
  RIVULET_RETURN_IF_ERROR(db->Script(TablesSql(version)));
  return ObjectsOf(*db, "main");
}

Status RefuseWhatRuns(Database& db, const std::string& schema, const std::string& path, const Objects& objects,
                      const std::set<std::string>& tables) {
  for (const auto& [name, object] : objects) {
    if (object.type == "trigger") {
      return DataLoss("the history '{}' has a trigger, '{}', which no program of ours makes; it is not opened", path,
                      name);
    }
    if (object.type != "index" || !tables.contains(object.table) || object.sql.empty()) continue;
    int64_t computed = 0;
    RIVULET_RETURN_IF_ERROR(db.Query("SELECT count(*) FROM pragma_index_xinfo(?, ?) WHERE cid = -2", {name, schema},
                                     [&](const SqlRow& row) { computed = row.Int(0); }));
    if (computed > 0 || Lower(object.sql).find(" where ") != std::string::npos) {
      return DataLoss(
          "the history '{}' has an index of an expression, '{}', which no program of ours makes; it is not "
          "opened",
          path, name);
    }
  }
  return absl::OkStatus();
}

}  // namespace

Status CheckSchema(Database& db, const std::string& schema, const std::string& path, int64_t version) {
  static Mutex* const mutex = new Mutex;
  static auto* const made = new std::map<int64_t, StatusOr<Objects>>;
  const StatusOr<Objects>* own = nullptr;
  {
    MutexLock lock(*mutex);
    if (!made->contains(version)) made->emplace(version, MakeOwnObjects(version));
    own = &made->at(version);
  }
  RIVULET_RETURN_IF_ERROR(own->status());
  RIVULET_ASSIGN_OR_RETURN(Objects objects, ObjectsOf(db, schema));
  std::set<std::string> tables;  // that rows are inserted into, and so into their indices
  for (const auto& [name, object] : **own) {
    if (object.type == "table") tables.insert(name);
    const auto found = objects.find(name);
    const bool same = found != objects.end() && found->second.type == object.type &&
                      found->second.table == object.table && found->second.sql == object.sql;
    if (!same) {
      return DataLoss("'{}' is not a Rivulet history: its {} '{}' is not that of one", path, object.type, name);
    }
    objects.erase(found);
  }
  return RefuseWhatRuns(db, schema, path, objects, tables);
}

Status UseOwnViews(Database& db) {
  static const std::string* const sql = [] {
    auto* const text = new std::string(ViewsSql());
    constexpr std::string_view kCreate = "CREATE VIEW ", kTemporary = "CREATE TEMP VIEW ";
    for (size_t at = text->find(kCreate); at != text->npos; at = text->find(kCreate, at + kTemporary.size()))
      text->replace(at, kCreate.size(), kTemporary);
    return text;
  }();
  return db.Script("PRAGMA temp_store = MEMORY;\n" + *sql);
}

}  // namespace rivulet
