#include "federated/updates/site_partial_bytes.h"

#include "federated/aggregation/partial.h"
#include "federated/updates/task_records.h"

namespace rivulet {

StatusOr<std::string> TakeSitePartial(Aggregation& aggregation, int64_t base_version,
                                      std::span<const TaskRecord> records) {
  std::string bytes = WriteTaskRecords(records);
  const Partial partial = aggregation.Extract(base_version);
  RIVULET_RETURN_IF_ERROR(WritePartial(aggregation.spec(), partial, [&](std::span<const std::byte> piece) -> Status {
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    return absl::OkStatus();
  }));
  return bytes;
}

}  // namespace rivulet
