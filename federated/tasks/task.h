// What a task is called and what it is for: words that aggregation, transport, the round machine, rows and logs share.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace rivulet {

using TaskId = std::string;  // "<run_id>-r<round>-a<attempt>-<client_id>-<ordinal>": unique in a history
using Scalars = std::map<std::string, double>;  // what a client says of its task, by name

enum class TaskKind : uint8_t { kTrain = 0, kEvaluate = 1 };
std::string_view Name(TaskKind kind);  // "train", "evaluate"

}  // namespace rivulet
