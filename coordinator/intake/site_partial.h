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

// More than so many bytes no partial of the spec has.
int64_t MostSitePartialBytes(const AggregationSpec& spec);

// Of the bytes of a whole upload: records (federated/updates/task_records.h), then a partial. Whoever sends it speaks
// for many clients, and none of their updates can be looked at any more; what can be told is that it is of this spec
// and starts from `base_version`, that it holds the tasks of its records and no other, that weights and scalars are
// exactly those that its records declare, and that no sum is beyond what such weights can give. INVALID_ARGUMENT,
// DATA_LOSS: a sentence for whoever sent it. RESOURCE_EXHAUSTED: no room on disk for the updates of a rule that needs
// all of them, or for sums that go to `files`; null: to memory.
StatusOr<SitePartial> ReadSitePartial(std::span<const std::byte> bytes, const AggregationSpec& spec,
                                      int64_t base_version, SumFiles* files = nullptr);

}  // namespace rivulet
