#include "inspect/run_proof.h"

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "coordinator/history/history.h"
#include "coordinator/stored_run.h"
#include "engine/base/file_system.h"
#include "engine/io/atomic_file.h"
#include "engine/io/new_folder.h"
#include "federated/records/merkle_tree.h"
#include "federated/records/proof.h"
#include "inspect/run_records.h"

namespace rivulet {

StatusOr<WrittenProof> WriteProof(const std::string& db, const std::string& run_id, const std::string& folder) {
  RIVULET_ASSIGN_OR_RETURN(const RecordsReport report, CheckRunRecords(db, run_id, nullptr));
  if (report.first_break) return DataLoss("{}", report.first_break->Sentence(run_id));
  if (report.records == 0) return FailedPrecondition("run {} has no records, and so no proof", run_id);
  RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(db, History::Access::kReadOnly));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<RecordRow> rows, history->Records(run_id));
  std::string lines, updates;
  for (const RecordRow& row : rows) {
    RIVULET_ASSIGN_OR_RETURN(const records::SignedRecord record, SignedRecordOf(row));
    RIVULET_ASSIGN_OR_RETURN(const std::string envelope, records::EnvelopeOf(record));
    lines += envelope + '\n';
    // Of updates without identities the leaves would tell whoever guesses a client's name that it took part.
    if (!record.record.has_receipts) continue;
    std::map<TaskId, std::optional<Digest>> folded;
    RIVULET_ASSIGN_OR_RETURN(const auto tasks, history->ClientRounds(run_id, row.round));
    for (const ClientRoundRow& task : tasks) {
      if (task.status == "folded" && task.kind == "train") folded[task.task_id] = task.update_digest;
    }
    records::VersionLeaves leaves = {.version = row.round, .leaves = {}};
    for (const auto& [task, identity] : folded) leaves.leaves.push_back(records::LeafOf(task, identity));
    updates += records::Write(leaves) + '\n';
  }
  FileSystem& fs = FileSystem::Default();
  const std::string models = JoinPath(folder, records::kProofModels);
  // Files take their names when all of them are written; the folders outlive them.
  RIVULET_ASSIGN_OR_RETURN(const auto made, NewFolder::Create(fs, folder));
  RIVULET_ASSIGN_OR_RETURN(const auto made_models, NewFolder::Create(fs, models));
  std::vector<std::unique_ptr<AtomicFile>> files;
  const auto add = [&](const std::string& path, std::string_view bytes) -> Status {
    RIVULET_ASSIGN_OR_RETURN(auto file, AtomicFile::Create(fs, path));
    RIVULET_RETURN_IF_ERROR(file->Append(bytes));
    RIVULET_RETURN_IF_ERROR(file->Finish());
    files.push_back(std::move(file));
    return absl::OkStatus();
  };
  RIVULET_RETURN_IF_ERROR(add(JoinPath(folder, records::kProofRecords), lines));
  RIVULET_RETURN_IF_ERROR(add(JoinPath(folder, records::kProofUpdates), updates));
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> plan, PlanOfStoredRun(db, run_id));
  if (plan != nullptr) RIVULET_RETURN_IF_ERROR(add(JoinPath(folder, records::kProofPlan), plan->bytes()));
  WrittenProof written = {.records = report.records, .models = 0, .head = report.head};
  RIVULET_ASSIGN_OR_RETURN(const std::vector<ModelRow> rows_of_models, history->Models(run_id));
  for (const ModelRow& model : rows_of_models) {
    // A version that an earlier program has written names no record in its file.
    const bool older = rows.front().round > 0 && model.round <= rows.front().round;
    if (model.path.empty() || older || model.round > rows.back().round) continue;
    RIVULET_ASSIGN_OR_RETURN(const std::string bytes, fs.ReadAll(JoinPath(FolderOf(history->real_path()), model.path)));
    RIVULET_RETURN_IF_ERROR(add(JoinPath(models, fmt::format("round-{:06}.safetensors", model.round)), bytes));
    ++written.models;
  }
  for (const auto& file : files) RIVULET_RETURN_IF_ERROR(file->Commit());
  return written;
}

}  // namespace rivulet
