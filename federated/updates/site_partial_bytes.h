// Serialized partial sum of a site with many clients: the records of its tasks (federated/updates/task_records.h), then
// the partial sum itself (federated/aggregation/partial.h). coordinator/intake/site_partial.h reads it.
#pragma once

#include <span>
#include <string>

#include "engine/base/status.h"
#include "federated/aggregation/aggregation.h"
#include "federated/tasks/task_record.h"

namespace rivulet {

// Removes and serializes the contents of `aggregation`. Errors are those of a rule that stores updates in files.
StatusOr<std::string> TakeSitePartial(Aggregation& aggregation, int64_t base_version,
                                      std::span<const TaskRecord> records);

}  // namespace rivulet
