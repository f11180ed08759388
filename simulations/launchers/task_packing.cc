#include "simulations/launchers/task_packing.h"

#include <bit>
#include <limits>
#include <utility>

namespace rivulet {
namespace {

Digest TakeDigest(Unpacker& from) {
  const StatusOr<Digest> digest = Digest::FromBytes(from.Text());
  if (digest.ok()) return *digest;
  from.Refuse();
  return {};
}

// Checked like a message's fields (federated/transport/messages.cc): a narrower type would hide the value.
template <typename T>
T TakeUpTo(Unpacker& from, T most) {
  const auto number = from.Number<int64_t>();
  if (number >= 0 && number <= int64_t{most}) return static_cast<T>(number);
  from.Refuse();
  return 0;
}

}  // namespace

void Put(Packer& to, const BlobId& blob) { to.Number(static_cast<int64_t>(blob.form)).Text(blob.digest.AsBytes()); }

BlobId TakeBlob(Unpacker& from) {
  BlobId blob;
  blob.form = from.OneOf(BlobId::Form::kState);
  blob.digest = TakeDigest(from);
  return blob;
}

void Put(Packer& to, const Task& task) {
  to.Text(task.id).Text(task.run_id).Text(task.client_id).Text(task.state_of).Text(task.plan.AsBytes());
  to.Number(static_cast<int64_t>(task.kind)).Number(int64_t{task.step}).Number(task.base_version);
  to.Number(int64_t{task.ordinal}).Number(task.stream_key).Number(task.gather).Number(task.inputs.size());
  for (const NamedBlob& input : task.inputs) {
    to.Text(input.name);
    Put(to, input.id);
  }
  to.Number(task.numbers.size());
  for (const auto& [name, value] : task.numbers) to.Text(name).Number(std::bit_cast<uint64_t>(value));
}

Task TakeTask(Unpacker& from) {
  Task task;
  task.id = from.Text();
  task.run_id = from.Text();
  task.client_id = from.Text();
  task.state_of = from.Text();
  task.plan = TakeDigest(from);
  task.kind = from.OneOf(TaskKind::kEvaluate);
  task.step = TakeUpTo(from, std::numeric_limits<int>::max());
  task.base_version = TakeUpTo(from, std::numeric_limits<int64_t>::max());
  task.ordinal = TakeUpTo(from, std::numeric_limits<uint16_t>::max());
  task.stream_key = from.Number<uint64_t>();
  task.gather = from.Number<uint64_t>();
  for (size_t left = from.Number<size_t>(); left > 0 && from.ok(); --left) {
    std::string name(from.Text());
    task.inputs.push_back({std::move(name), TakeBlob(from)});
  }
  for (size_t left = from.Number<size_t>(); left > 0 && from.ok(); --left) {
    std::string name(from.Text());
    task.numbers[std::move(name)] = std::bit_cast<double>(from.Number<uint64_t>());
  }
  return task;
}

void Put(Packer& to, const TaskFailure& failure) {
  to.Text(failure.task).Text(failure.subject).Text(failure.sentence).Number(static_cast<int64_t>(failure.code));
  to.Number(failure.counts.size());
  for (const auto& [name, count] : failure.counts) to.Text(name).Number(count);
}

TaskFailure TakeFailure(Unpacker& from) {
  TaskFailure failure;
  failure.task = from.Text();
  failure.subject = from.Text();
  failure.sentence = from.Text();
  failure.code = from.OneOf(TaskFailure::Code::kRaised);
  for (size_t left = from.Number<size_t>(); left > 0 && from.ok(); --left) {
    std::string name(from.Text());
    failure.counts[std::move(name)] = from.Number<int64_t>();
  }
  return failure;
}

}  // namespace rivulet
