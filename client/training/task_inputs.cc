#include "client/training/task_inputs.h"

namespace rivulet {

Status KnownLayout::Check(const Model& base) {
  if (base.shared_layout() == known_) return absl::OkStatus();
  const ModelLayout& layout = *plan_.layout();
  if (base.layout().digest() != layout.digest() || base.layout().arena_bytes() != layout.arena_bytes()) {
    return InvalidArgument("the base model's variables are not those of plan '{}'", plan_.name());
  }
  known_ = base.shared_layout();
  return absl::OkStatus();
}

Status CheckExamples(std::string_view client_id, int64_t examples, TaskKind kind) {
  if (examples <= 0) return FailedPrecondition("client '{}' has no examples to {} on", client_id, Name(kind));
  if (examples > UINT32_MAX)
    return InvalidArgument("client '{}' has {} examples, beyond 2^32 - 1", client_id, examples);
  return absl::OkStatus();
}

Status CheckBroadcasts(const Plan& plan, const BufferTable& table, TaskKind kind,
                       std::span<const AlignedBuffer* const> broadcasts) {
  const std::vector<std::string>& names = plan.flat_names().broadcast;
  if (!plan.reads_broadcasts(kind)) return absl::OkStatus();
  if (broadcasts.size() != names.size() && !names.empty()) {
    return InvalidArgument("plan '{}' has clients read {} vectors beside the model, and the task has {}", plan.name(),
                           names.size(), broadcasts.size());
  }
  for (size_t i = 0; i < names.size(); ++i) {
    const size_t bytes = table.bytes(table.broadcast(i));
    if (broadcasts[i]->size() == bytes) continue;
    return InvalidArgument("the task's '{}{}' has {} bytes and plan '{}' reads {}", kBroadcastPrefix, names[i],
                           broadcasts[i]->size(), plan.name(), bytes);
  }
  return absl::OkStatus();
}

}  // namespace rivulet
