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
  std::optional<double> percent;   // 0 .. 100, of requests without version or label; nullopt: as before, initially 0
  std::optional<int64_t> cluster;  // the model that is checked, of several
  std::string author, note;
  int64_t now = 0;  // milliseconds since 1970 UTC
};

// Writes and gives the row. A target that cannot be served is refused before anything is written, with the errors of
// ServedPlan::Create, LoadServedPlan and LoadServedModel. FAILED_PRECONDITION: the run has no stored plan.
// INVALID_ARGUMENT: an invalid name, label or share.
StatusOr<PointerRow> PointTo(FileSystem& fs, const PointRequest& request, const ServedPlanOptions& options);

// Moves a label back to its previous target. FAILED_PRECONDITION: there is none, or its files are missing.
StatusOr<PointerRow> RollBack(FileSystem& fs, const std::string& db, const std::string& name, const std::string& label,
                              const std::string& author, int64_t now);

// Sets a label's share to 0, with the reason as the row's note; its target stays. Does not wait: UNAVAILABLE if another
// process is pointing. ABORTED: the label's number of rows differs from that in `seen`, so it was pointed again
// meanwhile.
StatusOr<PointerRow> TakeShare(FileSystem& fs, const std::string& db, const std::string& name, const std::string& label,
                               const PointedLabel& seen, const std::string& reason, const std::string& author,
                               int64_t now);

}  // namespace rivulet
