// A partial sum sent by a site with many clients: complete and checked against its records, or refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/status.h"
#include "federated/aggregation/aggregation.h"
#include "federated/tasks/task_record.h"

namespace rivulet {

struct SitePartial {
  Partial partial;
  std::vector<TaskRecord> records;  // of its tasks, each once
};

// The most bytes of a partial sum of this spec.
int64_t MostSitePartialBytes(const AggregationSpec& spec);

// Reads a complete upload: records (federated/updates/task_records.h), then a partial sum. Its sender vouches for
// many clients, and their single updates cannot be checked any more. The checks: the sum is of this spec, starts
// from `base_version` and contains exactly the tasks of its records; weights and scalars equal the declared ones;
// no sum exceeds the bound of such weights. INVALID_ARGUMENT, DATA_LOSS: an error for the sender.
// RESOURCE_EXHAUSTED: the disk is full, for a rule that stores all updates, or for sums in `files`; null: in
// memory.
StatusOr<SitePartial> ReadSitePartial(std::span<const std::byte> bytes, const AggregationSpec& spec,
                                      int64_t base_version, SumFiles* files = nullptr);

}  // namespace rivulet
