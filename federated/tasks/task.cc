#include "federated/tasks/task.h"

#include "engine/base/check.h"

namespace rivulet {

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
