#include "federated/tasks/task.h"

#include <fmt/format.h>

#include <charconv>

#include "engine/base/check.h"

namespace rivulet {
namespace {

// Removes `before` and a number from the front of `text`; returns false if they are not there.
bool TakeNumber(std::string_view& text, std::string_view before, int64_t& number) {
  if (!text.starts_with(before)) return false;
  const char* const begin = text.data() + before.size();
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(begin, end, number);
  if (error != std::errc() || number < 0) return false;
  text.remove_prefix(static_cast<size_t>(after - text.data()));
  return true;
}

}  // namespace

TaskId TaskIdOf(std::string_view run_id, const TaskName& name) {
  return fmt::format("{}-{}{}-a{}-{}-{}", run_id, name.kind == TaskKind::kTrain ? 'r' : 'e', name.round, name.attempt,
                     name.client_id, name.ordinal);
}

// Parses from both ends: a client's name may contain anything, even text like another task's id.
std::optional<TaskName> TaskNameOf(std::string_view task, std::string_view run_id) {
  if (!task.starts_with(run_id)) return std::nullopt;
  std::string_view rest = task.substr(run_id.size());
  TaskName name;
  name.kind = rest.starts_with("-e") ? TaskKind::kEvaluate : TaskKind::kTrain;
  if (!TakeNumber(rest, name.kind == TaskKind::kTrain ? "-r" : "-e", name.round)) return std::nullopt;
  if (!TakeNumber(rest, "-a", name.attempt) || !rest.starts_with('-')) return std::nullopt;
  const size_t last = rest.rfind('-');
  std::string_view ordinal = rest.substr(last);
  if (last == 0 || !TakeNumber(ordinal, "-", name.ordinal) || !ordinal.empty()) return std::nullopt;
  name.client_id = rest.substr(1, last - 1);
  return name;
}

std::string_view Name(TaskKind kind) {
  switch (kind) {
    case TaskKind::kTrain:
      return "train";
    case TaskKind::kEvaluate:
      return "evaluate";
  }
  RIVULET_CHECK(false, "kind {}", static_cast<int>(kind));
}

std::string_view Name(TaskEnd end) {
  switch (end) {
    case TaskEnd::kFolded:
      return "folded";
    case TaskEnd::kRefused:
      return "refused";
    case TaskEnd::kDropped:
      return "dropped";
    case TaskEnd::kFailed:
      return "failed";
  }
  RIVULET_CHECK(false, "end {}", static_cast<int>(end));
}

}  // namespace rivulet
