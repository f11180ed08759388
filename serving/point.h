// Setting labels of served names: `rivulet model point` and `rollback`. A version's files are linked into the folder of
// pointed versions, then its row is written in one small transaction. If the process ends in between, the old pointers
// stay.
#pragma once

#include <optional>
#include <string>

#include "coordinator/history/pointers.h"
#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "serving/pointed_names.h"
#include "serving/served_plan.h"

namespace rivulet {

struct PointRequest {
  std::string db;  // the history
  std::string name, label;
  std::string run_id;
  int64_t round = 0;
  std::string version_path;        // the model's file, in its run's folder
  std::optional<double> percent;   // 0 .. 100, of requests without version or label; nullopt: as it was, at first 0
  std::optional<int64_t> cluster;  // which of several models is checked
  std::string author, note;
  int64_t now = 0;  // milliseconds since 1970 UTC
};

// The row that was written. What cannot be served is refused before anything is written, as ServedPlan::Create,
// LoadServedPlan and LoadServedModel say. FAILED_PRECONDITION: the run keeps no plan. INVALID_ARGUMENT: a name, label
// or share that is none.
StatusOr<PointerRow> PointTo(FileSystem& fs, const PointRequest& request, const ServedPlanOptions& options);

// Steps a label back to its target before. FAILED_PRECONDITION: there is none, or its files are gone.
StatusOr<PointerRow> RollBack(FileSystem& fs, const std::string& db, const std::string& name, const std::string& label,
                              const std::string& author, int64_t now);

// Takes a label's share away, with the reason as the row's note; its target stays. Waits for nobody: UNAVAILABLE where
// another process is pointing. ABORTED: the label has had another number of rows than `label` says, so that
// somebody has pointed it anew.
StatusOr<PointerRow> TakeShare(FileSystem& fs, const std::string& db, const std::string& name, const std::string& label,
                               const PointedLabel& seen, const std::string& reason, const std::string& author,
                               int64_t now);

}  // namespace rivulet
