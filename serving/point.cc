#include "serving/point.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "coordinator/history/history.h"
#include "engine/program/program.h"
#include "serving/loaded_version.h"
#include "serving/pointed_files.h"
#include "serving/pointed_names.h"

namespace rivulet {
namespace {

// On a separate thread, because compiling needs EnterWorkerThread, which must not change the caller's thread.
Status CheckServable(FileSystem& fs, const PointRequest& request, const PointerRow& row, const std::string& plan_path,
                     const ServedPlanOptions& options) {
  Status status;
  std::thread([&] {
    EnterWorkerThread();
    status = [&]() -> Status {
      RIVULET_ASSIGN_OR_RETURN(auto plan, LoadServedPlan(fs, plan_path, row.plan_digest));
      const auto layout = plan->layout();
      RIVULET_RETURN_IF_ERROR(ServedPlan::Create(std::move(plan), options).status());
      return LoadServedModel(fs, request.version_path, row.digest, layout, request.cluster).status();
    }();
  }).join();
  return status;
}

// Rows first, then removal of unneeded files: a process that ends in between leaves files, but no row without one.
StatusOr<PointerRow> Write(Pointers& pointers, PointedFiles& files, PointerRow row) {
  RIVULET_ASSIGN_OR_RETURN(row.version, pointers.Add(row));
  RIVULET_ASSIGN_OR_RETURN(const auto rows, pointers.Rows());
  RIVULET_RETURN_IF_ERROR(files.KeepOnly(KeptTargets(rows)));
  return row;
}

}  // namespace

StatusOr<PointerRow> PointTo(FileSystem& fs, const PointRequest& request, const ServedPlanOptions& options) {
  RIVULET_RETURN_IF_ERROR(CheckServedName(request.name));
  RIVULET_RETURN_IF_ERROR(CheckLabel(request.label));
  if (request.percent && !(*request.percent >= 0 && *request.percent <= 100))
    return InvalidArgument("a label's share is 0 to 100 percent, not {}", *request.percent);
  if (request.label == kStableLabel && request.percent)
    return InvalidArgument("'{}' gets the requests that no other label takes; give the share to '{}'", kStableLabel,
                           kCanaryLabel);
  PointerRow row{.name = request.name,
                 .label = request.label,
                 .run_id = request.run_id,
                 .round = request.round,
                 .at = request.now,
                 .author = request.author,
                 .note = request.note};
  std::string real_path;
  {
    RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(request.db, History::Access::kReadOnly));
    real_path = history->real_path();
    RIVULET_ASSIGN_OR_RETURN(const RunRow run, history->ResolveRun(request.run_id));
    RIVULET_ASSIGN_OR_RETURN(const auto models, history->Models(run.run_id));
    const auto model = std::ranges::find(models, request.round, &ModelRow::round);
    if (model == models.end()) return NotFound("run '{}' has no round {}", run.run_id, request.round);
    row.run_id = run.run_id;
    row.plan_digest = run.plan_digest;
    row.digest = model->digest;
  }
  const std::string plan_path = JoinPath(FolderOf(request.version_path), "plan");
  if (!fs.Exists(plan_path))
    return FailedPrecondition("run '{}' keeps no plan at '{}', and its graph comes from there; restore it from a copy",
                              row.run_id, plan_path);
  RIVULET_RETURN_IF_ERROR(CheckServable(fs, request, row, plan_path, options));
  PointedFiles files(fs, real_path);
  RIVULET_ASSIGN_OR_RETURN(const auto lock, files.Lock());
  RIVULET_ASSIGN_OR_RETURN(const auto pointers, Pointers::Open(request.db, Database::Access::kReadWrite));
  RIVULET_ASSIGN_OR_RETURN(const auto rows, pointers->Rows());
  row.share = request.percent.value_or(0);
  if (!request.percent) {
    const auto names = NamesOf(rows);
    const auto name = names.find(row.name);
    if (name != names.end() && name->second.labels.contains(row.label))
      row.share = name->second.labels.at(row.label).share;
  }
  RIVULET_RETURN_IF_ERROR(
      files.Bring({0, row.run_id, row.round, row.digest, row.plan_digest}, request.version_path, plan_path));
  return Write(*pointers, files, std::move(row));
}

StatusOr<PointerRow> RollBack(FileSystem& fs, const std::string& db, const std::string& name, const std::string& label,
                              const std::string& author, int64_t now) {
  RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(db, History::Access::kReadOnly));
  PointedFiles files(fs, history->real_path());
  RIVULET_ASSIGN_OR_RETURN(const auto lock, files.Lock());
  RIVULET_ASSIGN_OR_RETURN(const auto pointers, Pointers::Open(db, Database::Access::kReadWrite));
  RIVULET_ASSIGN_OR_RETURN(const auto rows, pointers->Rows());
  RIVULET_ASSIGN_OR_RETURN(PointerRow row, StepBack(rows, name, label));
  row.at = now;
  row.author = author;
  row.note.clear();
  const PointedVersion target{row.version, row.run_id, row.round, row.digest, row.plan_digest};
  // Files of an earlier step back are not in the folder any more; its run may still have them.
  const PointedFiles::Found found = files.Find(target);
  if (!fs.Exists(found.version) || !fs.Exists(found.plan))
    return FailedPrecondition(
        "the target before of '{}={}', round {} of run '{}', is kept no more; point the label to a version that is",
        name, label, row.round, row.run_id);
  RIVULET_RETURN_IF_ERROR(files.Bring(target, found.version, found.plan));
  return Write(*pointers, files, std::move(row));
}

StatusOr<PointerRow> TakeShare(FileSystem& fs, const std::string& db, const std::string& name, const std::string& label,
                               const PointedLabel& seen, const std::string& reason, const std::string& author,
                               int64_t now) {
  std::string real_path;
  {
    RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(db, History::Access::kReadOnly));
    real_path = history->real_path();
  }
  PointedFiles files(fs, real_path);
  RIVULET_ASSIGN_OR_RETURN(const auto lock, files.TryLock());
  RIVULET_ASSIGN_OR_RETURN(const auto pointers, Pointers::Open(db, Database::Access::kReadWrite));
  RIVULET_ASSIGN_OR_RETURN(const auto rows, pointers->Rows());
  auto names = NamesOf(rows);
  const auto present = names[name].labels.find(label);
  if (present == names[name].labels.end() || present->second.rows != seen.rows)
    return Aborted("'{}={}' was pointed anew meanwhile", name, label);
  const PointedVersion& target = present->second.target;
  PointerRow row{.name = name,
                 .label = label,
                 .run_id = target.run_id,
                 .round = target.round,
                 .digest = target.digest,
                 .plan_digest = target.plan_digest,
                 .at = now,
                 .author = author,
                 .note = reason};
  RIVULET_ASSIGN_OR_RETURN(row.version, pointers->Add(row));
  return row;
}

}  // namespace rivulet
