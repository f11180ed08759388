#include "coordinator/history/pointers.h"

#include <algorithm>

#include "coordinator/history/history.h"
#include "coordinator/history/tables.h"

namespace rivulet {
namespace {

PointerRow Shown(StoredPointer&& row) {
  return {.name = std::move(row.name),
          .label = std::move(row.label),
          .run_id = std::move(row.run_id),
          .round = row.round,
          .digest = row.digest.Hex(),
          .plan_digest = row.plan_digest.Hex(),
          .version = row.version,
          .share = row.share.value_or(0),
          .at = row.at,
          .author = std::move(row.author),
          .note = std::move(row.note),
          .rolled_back = row.rolled_back != 0};
}

}  // namespace

StatusOr<std::unique_ptr<Pointers>> Pointers::Open(const std::string& path, Database::Access access) {
  const bool writes = access == Database::Access::kReadWrite;
  // History::Open checks the file's kind and version in one place. Only an existing file is opened.
  RIVULET_RETURN_IF_ERROR(History::Open(path, History::Access::kReadOnly).status());
  if (writes) RIVULET_RETURN_IF_ERROR(History::Open(path, History::Access::kReadWrite).status());
  RIVULET_ASSIGN_OR_RETURN(std::unique_ptr<Database> db, Database::Open(path, access));
  // As in History: the log is checkpointed by the owner of a run, or by the last process that closes the file.
  if (writes) RIVULET_RETURN_IF_ERROR(db->Script("PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0"));
  return std::unique_ptr<Pointers>(new Pointers(std::move(db)));
}

StatusOr<int64_t> Pointers::DataVersion() {
  int64_t version = 0;
  RIVULET_RETURN_IF_ERROR(db_->Query("PRAGMA data_version", {}, [&](const SqlRow& row) { version = row.Int(0); }));
  return version;
}

StatusOr<std::vector<PointerRow>> Pointers::Rows() {
  RIVULET_ASSIGN_OR_RETURN(auto stored, Select<StoredPointer>(*db_, "ORDER BY pointer", {}));
  std::vector<PointerRow> rows;
  rows.reserve(stored.size());
  for (StoredPointer& row : stored) rows.push_back(Shown(std::move(row)));
  return rows;
}

StatusOr<int64_t> Pointers::Add(const PointerRow& row) {
  StoredPointer stored{.name = row.name,
                       .label = row.label,
                       .run_id = row.run_id,
                       .round = row.round,
                       .share = row.share > 0 ? std::optional(row.share) : std::nullopt,
                       .at = row.at,
                       .author = row.author,
                       .note = row.note,
                       .rolled_back = row.rolled_back ? 1 : 0};
  RIVULET_ASSIGN_OR_RETURN(stored.digest, Digest::FromHex(row.digest));
  RIVULET_ASSIGN_OR_RETURN(stored.plan_digest, Digest::FromHex(row.plan_digest));
  // The version is chosen in the transaction that uses it: two processes at the same time get two numbers.
  RIVULET_ASSIGN_OR_RETURN(auto transaction, SqlTransaction::Begin(*db_));
  int64_t last = 0;
  RIVULET_RETURN_IF_ERROR(
      db_->Query("SELECT version, run_id = ? AND round = ? AND digest = ? FROM pointer WHERE name = ?",
                 {row.run_id, row.round, SqlBlob{stored.digest.AsBytes()}, row.name}, [&](const SqlRow& found) {
                   last = std::max(last, found.Int(0));
                   if (found.Int(1) != 0) stored.version = found.Int(0);
                 }));
  if (stored.version == 0) stored.version = last + 1;
  RIVULET_RETURN_IF_ERROR(Insert(*db_, stored));
  RIVULET_RETURN_IF_ERROR(transaction->Commit());
  return stored.version;
}

}  // namespace rivulet
