// Identity, kind and end of a task: the terms shared by aggregation, transport, the round machine, rows and logs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace rivulet {

using TaskId = std::string;  // "<run_id>-r<round>-a<attempt>-<client_id>-<ordinal>": unique in a history
using Scalars = std::map<std::string, double>;  // a client's declared numbers about its task, by name

enum class TaskKind : uint8_t { kTrain = 0, kEvaluate = 1 };
std::string_view Name(TaskKind kind);  // "train", "evaluate"

// The fields of a task's id. An evaluation's id has an e before its round.
struct TaskName {
  TaskKind kind = TaskKind::kTrain;
  int64_t round = 0, attempt = 1;
  std::string client_id;
  int64_t ordinal = 0;
  bool operator==(const TaskName&) const = default;
};
TaskId TaskIdOf(std::string_view run_id, const TaskName& name);
// nullopt: not a task of this run.
std::optional<TaskName> TaskNameOf(std::string_view task, std::string_view run_id);

// The end of a task, the same type on the wire, in rows, logs and JSON.
enum class TaskEnd : uint8_t {
  kFolded = 0,   // its update is in a version
  kRefused = 1,  // it arrived and was not accepted
  kDropped = 2,  // it missed its deadline, its attempt was abandoned, or it was not needed
  kFailed = 3,   // its client reported that it cannot be done
};
std::string_view Name(TaskEnd end);  // "folded", "refused", "dropped", "failed"

}  // namespace rivulet
