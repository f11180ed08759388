#include "federated/updates/task_records.h"

#include <cmath>
#include <cstring>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "engine/base/check.h"
#include "federated/updates/task_columns.h"
#include "proto/federated/partial.pb.h"

namespace rivulet {
namespace {

constexpr std::string_view kRecordsMagic = "RVTASKS1";
constexpr size_t kRecordsHead = kRecordsMagic.size() + sizeof(uint32_t);
constexpr int64_t kMaxDeclared = 64;  // besides those that a plan sums
constexpr size_t kMaxTaskNameBytes = 1024, kMaxDeclaredNameBytes = 256;
// Generous bound for one record with names of usual length.
constexpr int64_t kRecordBytes = 4096;
// For one further scalar with the name of a metric's count.
constexpr int64_t kScalarBytes = 128;

StatusOr<TaskRecord> RecordOf(const proto::TaskRecordProto& message, int64_t scalars) {
  if (message.task().empty() || message.task().size() > kMaxTaskNameBytes) {
    return InvalidArgument("a record's task has a name of {} bytes", message.task().size());
  }
  if (message.declared_size() > kMaxDeclared + scalars) {
    return InvalidArgument("the record of task '{}' has {} scalars, more than {}", message.task(),
                           message.declared_size(), kMaxDeclared + scalars);
  }
  TaskRecord record;
  record.task = message.task();
  for (const proto::DeclaredProto& scalar : message.declared()) {
    if (scalar.name().empty() || scalar.name().size() > kMaxDeclaredNameBytes || !std::isfinite(scalar.value()) ||
        !record.declared.emplace(scalar.name(), scalar.value()).second) {
      return InvalidArgument("the record of task '{}' has {} = {}, which is no reported number, or is repeated",
                             record.task, scalar.name().substr(0, kMaxDeclaredNameBytes), scalar.value());
    }
  }
  ReadDeclared(record.declared, record);
  if (!record.examples) {
    return InvalidArgument("the record of task '{}' does not declare on how many 'examples' it was trained",
                           record.task);
  }
  RIVULET_RETURN_IF_ERROR(ReadSiteColumns(message, fmt::format("the record of task '{}'", record.task), record));
  return record;
}

}  // namespace

std::string WriteTaskRecords(std::span<const TaskRecord> records) {
  proto::TaskRecordsProto message;
  for (const TaskRecord& record : records) {
    proto::TaskRecordProto& to = *message.add_records();
    to.set_task(record.task);
    for (const auto& [name, value] : record.declared) {
      proto::DeclaredProto& scalar = *to.add_declared();
      scalar.set_name(name);
      scalar.set_value(value);
    }
    WriteSiteColumns(record, to);
  }
  const size_t size = message.ByteSizeLong();
  RIVULET_CHECK(size < size_t{1} << 31, "{} records of {} bytes", records.size(), size);
  const auto length = static_cast<uint32_t>(size);
  std::string bytes(kRecordsMagic);
  bytes.append(reinterpret_cast<const char*>(&length), sizeof(length));
  message.AppendToString(&bytes);
  return bytes;
}

int64_t MostTaskRecordBytes(int64_t tasks, int64_t scalars) {
  return static_cast<int64_t>(kRecordsHead) + tasks * (kRecordBytes + scalars * kScalarBytes);
}

StatusOr<TaskRecords> ReadTaskRecords(std::span<const std::byte> bytes, int64_t most, int64_t scalars) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.size() < kRecordsHead || !text.starts_with(kRecordsMagic)) {
    return InvalidArgument("these {} bytes are no site's partial: they do not begin with {}", bytes.size(),
                           kRecordsMagic);
  }
  uint32_t length = 0;
  std::memcpy(&length, text.data() + kRecordsMagic.size(), sizeof(length));
  if (length > text.size() - kRecordsHead || static_cast<int64_t>(length) > MostTaskRecordBytes(most, scalars)) {
    return InvalidArgument(
        "a site's partial announces {} bytes of records and has {}; those of {} tasks have at most {}", length,
        text.size() - kRecordsHead, most, MostTaskRecordBytes(most, scalars));
  }
  proto::TaskRecordsProto message;
  if (!message.ParseFromArray(text.data() + kRecordsHead, static_cast<int>(length))) {
    return InvalidArgument("the records of a site's partial cannot be read");
  }
  if (message.records_size() > most) {
    return InvalidArgument("a site's partial sum has {} records, more than the {} updates of a version",
                           message.records_size(), most);
  }
  TaskRecords read;
  read.rest = bytes.subspan(kRecordsHead + length);
  std::unordered_set<std::string_view> tasks;
  for (const proto::TaskRecordProto& record : message.records()) {
    if (!tasks.insert(record.task()).second) {
      return InvalidArgument("a site's partial sum has two records of task '{}'", record.task());
    }
    RIVULET_ASSIGN_OR_RETURN(read.records.emplace_back(), RecordOf(record, scalars));
  }
  return read;
}

}  // namespace rivulet
