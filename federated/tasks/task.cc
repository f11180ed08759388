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

}  // namespace rivulet
