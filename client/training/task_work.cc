#include "client/training/task_work.h"

#include <bit>
#include <string_view>
#include <utility>

namespace rivulet {

Digest WorkOf(const Task& task) {
  Sha256 sha;
  const auto text = [&sha](std::string_view value) { sha.UpdateU64(value.size()).Update(value); };
  text(task.id);
  text(task.run_id);
  text(task.client_id);
  text(task.state_of);
  text(task.plan.AsBytes());
  sha.UpdateU8(static_cast<uint8_t>(task.kind)).UpdateU64(static_cast<uint64_t>(task.step));
  sha.UpdateU64(static_cast<uint64_t>(task.base_version)).UpdateU64(task.ordinal).UpdateU64(task.stream_key);
  for (const NamedBlob& input : task.inputs) {
    text(input.name);
    sha.UpdateU8(static_cast<uint8_t>(input.id.form));
    text(input.id.digest.AsBytes());
  }
  for (const auto& [name, value] : task.numbers) {
    text(name);
    sha.UpdateU64(std::bit_cast<uint64_t>(value));
  }
  return std::move(sha).Finish();
}

}  // namespace rivulet
