// Serialized records of many tasks, before the partial sum of a site in another process.
//   "RVTASKS1" u32 length (little-endian), proto::TaskRecordsProto of that length followed by the partial
//   sum
//
// Examples and steps of a task are among its declared scalars. The same records give the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "federated/tasks/task_record.h"

namespace rivulet {

// The limit of a plan's scalars (federated/aggregation/aggregation_spec.cc).
inline constexpr int64_t kMostScalars = 10'000;

std::string WriteTaskRecords(std::span<const TaskRecord> records);
// Upper bound of the bytes of `tasks` records that ReadTaskRecords accepts. `scalars`: number of scalars that the plan
// sums; a client may declare 64 more.
int64_t MostTaskRecordBytes(int64_t tasks, int64_t scalars = 0);

struct TaskRecords {
  std::vector<TaskRecord> records;  // each task once
  std::span<const std::byte> rest;  // the bytes after the records; a view
};
// INVALID_ARGUMENT: no records, more than `most` of them, a repeated task, a name beyond 1,024 bytes, more than
// `scalars` + 64 scalars, one that is not finite, no number of examples, a negative column of the site.
StatusOr<TaskRecords> ReadTaskRecords(std::span<const std::byte> bytes, int64_t most, int64_t scalars = 0);

}  // namespace rivulet
