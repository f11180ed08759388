// Import of another history's runs.
#include <filesystem>
#include <map>
#include <optional>

#include "coordinator/history/check_schema.h"
#include "coordinator/history/history.h"
#include "coordinator/history/schema.h"
#include "coordinator/history/tables.h"

namespace rivulet {
namespace {

// A query of the other file, and the fault if it has a result. Rows are copied as stored, so content that this program
// never writes is refused here: a model's file outside its run's folder, a digest of another length, a name that cannot
// be a folder's.
struct HostileRow {
  const char* sql;
  const char* what;
};
constexpr HostileRow kHostileRows[] = {
    {"SELECT run_id FROM other.run WHERE run_id = '' OR run_id LIKE '.%' OR run_id GLOB '*[^-A-Za-z0-9._]*' "
     "OR length(run_id) > 200",
     "a run whose id is no name of a folder"},
    {"SELECT r.run_id FROM other.model m JOIN other.run r ON r.run = m.run "
     "WHERE m.file <> printf('round-%06d.safetensors', m.round)",
     "a model whose path leads elsewhere than to its round's file"},
    {"SELECT run_id FROM other.run WHERE length(plan_digest) <> 32", "an invalid plan digest"},
    {"SELECT r.run_id FROM other.model m JOIN other.run r ON r.run = m.run WHERE length(m.digest) <> 32",
     "an invalid model digest"},
    {"SELECT t.task FROM other.task t WHERE length(t.update_digest) <> 32", "an invalid update digest"},
    {"SELECT r.run_id FROM other.record c JOIN other.run r ON r.run = c.run WHERE length(c.digest) <> 32",
     "an invalid record digest"},
};

// Copies a table of the other file: each column as it is, or by `expressions`; a column with an empty expression is a
// key, which this file assigns.
template <typename Row>
Status CopyTable(Database& db, const std::map<std::string_view, std::string>& expressions, std::string_view rest) {
  std::string into, from;
  ForEachColumn<Row>([&](const auto& column) {
    const auto said = expressions.find(column.name);
    if (said != expressions.end() && said->second.empty()) return;
    into += fmt::format("{}{}", into.empty() ? "" : ", ", column.name);
    from += fmt::format("{}{}", from.empty() ? "" : ", ",
                        said != expressions.end() ? said->second : fmt::format("t.{}", column.name));
  });
  return db.Run(fmt::format("INSERT INTO main.{0} ({1}) SELECT {2} FROM other.{0} t {3}", SqlTable<Row>::kName, into,
                            from, rest));
}

// A row that violates a constraint is reported by SQLite for this file, but is the other file's
// fault.
Status BlameOther(const Status& status, const std::string& other) {
  if (!absl::IsAlreadyExists(status)) return status;
  const std::string_view said = Message(status);
  return DataLoss("the history '{}' has rows that no program of ours writes ({}); nothing of it was taken", other,
                  said.substr(said.rfind("': ") == said.npos ? 0 : said.rfind("': ") + 3));
}

constexpr std::string_view kOfRuns = "JOIN temp.runs_taken m ON m.theirs = t.run";

// Copies every row of the runs in temp.runs_taken.
Status CopyRows(Database& db) {
  RIVULET_RETURN_IF_ERROR(CopyTable<StoredClient>(
      db, {{"client", ""}, {"status", "0"}},  // bans by the other history's operators do not apply here
      "WHERE t.client IN (SELECT c.client FROM other.membership c JOIN temp.runs_taken m ON m.theirs = c.run UNION "
      "SELECT k.client FROM other.task k JOIN other.attempt a ON a.attempt_key = k.attempt_key JOIN temp.runs_taken m "
      "ON m.theirs = a.run UNION SELECT k.parent FROM other.task k JOIN other.attempt a ON a.attempt_key = "
      "k.attempt_key JOIN temp.runs_taken m ON m.theirs = a.run) ON CONFLICT (client_id) DO UPDATE SET first_seen = "
      "coalesce(min(first_seen, excluded.first_seen), first_seen, excluded.first_seen), last_seen = "
      "coalesce(max(last_seen, excluded.last_seen), last_seen, excluded.last_seen)"));
  RIVULET_RETURN_IF_ERROR(
      db.Script("CREATE TEMP TABLE clients_taken AS SELECT t.client AS theirs, n.client AS ours FROM other.client t "
                "JOIN main.client n ON n.client_id = t.client_id;"
                "CREATE UNIQUE INDEX temp.by_theirs ON clients_taken (theirs)"));
  RIVULET_RETURN_IF_ERROR(
      CopyTable<StoredMembership>(db, {{"run", "m.ours"}, {"client", "c.ours"}},
                                  fmt::format("{} JOIN temp.clients_taken c ON c.theirs = t.client", kOfRuns)));
  RIVULET_RETURN_IF_ERROR(CopyTable<StoredAttempt>(db, {{"attempt_key", ""}, {"run", "m.ours"}}, kOfRuns));
  RIVULET_RETURN_IF_ERROR(
      db.Script("CREATE TEMP TABLE attempts_taken (theirs INTEGER PRIMARY KEY, ours INTEGER);"
                "INSERT INTO temp.attempts_taken SELECT t.attempt_key, n.attempt_key FROM other.attempt t "
                "JOIN temp.runs_taken m ON m.theirs = t.run JOIN main.attempt n ON n.run = m.ours AND "
                "n.round = t.round AND n.attempt = t.attempt AND n.kind = t.kind"));
  RIVULET_RETURN_IF_ERROR(CopyTable<StoredTask>(
      db,
      {{"task", ""},
       {"attempt_key", "a.ours"},
       {"client", "c.ours"},
       {"parent", "(SELECT p.ours FROM temp.clients_taken p WHERE p.theirs = t.parent)"}},
      "JOIN temp.attempts_taken a ON a.theirs = t.attempt_key JOIN temp.clients_taken c ON c.theirs = t.client "
      "ORDER BY t.task"));
  RIVULET_RETURN_IF_ERROR(CopyTable<StoredMetric>(
      db, {{"run", "m.ours"}, {"client", "(SELECT c.ours FROM temp.clients_taken c WHERE c.theirs = t.client)"}},
      kOfRuns));
  RIVULET_RETURN_IF_ERROR(CopyTable<StoredModel>(db, {{"run", "m.ours"}}, kOfRuns));
  RIVULET_RETURN_IF_ERROR(CopyTable<StoredBlob>(db, {{"run", "m.ours"}}, kOfRuns));
  RIVULET_RETURN_IF_ERROR(CopyTable<StoredRecord>(db, {{"run", "m.ours"}}, kOfRuns));
  RIVULET_RETURN_IF_ERROR(CopyTable<StoredKey>(db, {{"run", "m.ours"}}, kOfRuns));
  RIVULET_RETURN_IF_ERROR(CopyTable<StoredTag>(db, {{"run", "m.ours"}}, kOfRuns));
  RIVULET_RETURN_IF_ERROR(CopyTable<StoredNote>(db, {{"run", "m.ours"}}, kOfRuns));
  RIVULET_RETURN_IF_ERROR(CopyTable<StoredEvent>(db, {{"event", ""}, {"run", "m.ours"}}, kOfRuns));
  return absl::OkStatus();
}

Status RefuseHostileRows(Database& db, const std::string& other) {
  RIVULET_RETURN_IF_ERROR(CheckSchema(db, "other", other, kHistoryVersion));
  for (const HostileRow& hostile : kHostileRows) {
    std::optional<std::string> found;
    RIVULET_RETURN_IF_ERROR(
        db.Query(fmt::format("{} LIMIT 1", hostile.sql), {}, [&](const SqlRow& row) { found = row.Text(0); }));
    if (found) return DataLoss("the history '{}' has {} ('{}'); nothing of it was taken", other, hostile.what, *found);
  }
  return absl::OkStatus();
}

}  // namespace

Status History::Import(const std::string& other, std::span<const std::string> run_ids) {
  MutexLock lock(mutex_);
  RIVULET_RETURN_IF_ERROR(db_->Run("ATTACH ? AS other", {other}));
  std::error_code unknown;
  const auto bytes = std::filesystem::file_size(other, unknown);
  db_->LimitSteps(unknown ? 0 : static_cast<int64_t>(bytes));
  const auto take = [&]() REQUIRES(mutex_) -> Status {
    RIVULET_RETURN_IF_ERROR(RefuseHostileRows(*db_, other));
    RIVULET_ASSIGN_OR_RETURN(auto transaction, SqlTransaction::Begin(*db_));
    RIVULET_RETURN_IF_ERROR(db_->Script("CREATE TEMP TABLE runs_taken (theirs INTEGER PRIMARY KEY, ours INTEGER)"));
    for (const std::string& run_id : run_ids) {
      bool known = false;
      RIVULET_RETURN_IF_ERROR(
          db_->Query("SELECT 1 FROM main.run WHERE run_id = ?", {run_id}, [&](const SqlRow&) { known = true; }));
      if (known) return AlreadyExists("the history '{}' has a run '{}' already", path_, run_id);
      // No process resumes a run that was running in the other history.
      RIVULET_RETURN_IF_ERROR(
          db_->Run("INSERT INTO main.run (run_id, name, status, reason, config, plan_digest, seed, version, models, "
                   "created, started, finished) SELECT run_id, name, CASE status WHEN 0 THEN 2 ELSE status END, "
                   "reason, config, plan_digest, seed, version, ?, created, started, finished "
                   "FROM other.run WHERE run_id = ?",
                   {ModelsFolder(real_path_, run_id), run_id}));
      RIVULET_RETURN_IF_ERROR(db_->Run(
          "INSERT INTO temp.runs_taken SELECT t.run, n.run FROM other.run t JOIN main.run n ON n.run_id = t.run_id "
          "WHERE t.run_id = ?",
          {run_id}));
    }
    RIVULET_RETURN_IF_ERROR(BlameOther(CopyRows(*db_), other));
    RIVULET_RETURN_IF_ERROR(
        db_->Script("DROP TABLE temp.runs_taken; DROP TABLE temp.clients_taken; DROP TABLE temp.attempts_taken"));
    return transaction->Commit();
  };
  const Status taken = take();
  db_->LimitSteps(std::nullopt);
  // Its statements are finished; while attached, the other file would only stay open.
  db_->Run("DETACH other").IgnoreError();
  return taken;
}

}  // namespace rivulet
