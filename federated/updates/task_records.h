// Serialized records of many tasks, before the partial sum of a site in another process.
//
//   "RVTASKS1"  u32 length (little-endian), proto::TaskRecordsProto of that length     and then the partial
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

// A plan sums no more (federated/aggregation/aggregation_spec.cc).
inline constexpr int64_t kMostScalars = 10'000;

std::string WriteTaskRecords(std::span<const TaskRecord> records);
// `scalars`: how many the plan sums; a client may declare 64 besides. At most so many bytes are `tasks` records that
// ReadTaskRecords takes.
int64_t MostTaskRecordBytes(int64_t tasks, int64_t scalars = 0);

struct TaskRecords {
  std::vector<TaskRecord> records;  // each task once
  std::span<const std::byte> rest;  // what follows them; borrows from the bytes
};
// INVALID_ARGUMENT: bytes that begin with no records, more than `most` of them, a task twice, a name beyond 1,024
// bytes, more than `scalars` and 64, one that is no finite number, no number of examples, a column of the site below 0.
StatusOr<TaskRecords> ReadTaskRecords(std::span<const std::byte> bytes, int64_t most, int64_t scalars = 0);

}  // namespace rivulet
