// The records of many tasks as bytes: what stands before a partial that a site of another process hands over.
//
//   "RVTASKS1"  u32 length (little-endian), proto::TaskRecordsProto of that length     and then the partial
//
// Examples and steps of a task stand among what it declares. The same records are the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "federated/tasks/task_record.h"

namespace rivulet {

std::string WriteTaskRecords(std::span<const TaskRecord> records);
// At most so many bytes are `tasks` records that ReadTaskRecords takes.
int64_t MostTaskRecordBytes(int64_t tasks);

struct TaskRecords {
  std::vector<TaskRecord> records;  // each task once
  std::span<const std::byte> rest;  // what follows them; borrows from the bytes
};
// INVALID_ARGUMENT: bytes that begin with no records, more than `most` of them, a task twice, a name beyond 1,024
// bytes, more than 64 scalars, one that is no finite number, no number of examples, a column of the site below 0.
StatusOr<TaskRecords> ReadTaskRecords(std::span<const std::byte> bytes, int64_t most);

}  // namespace rivulet
