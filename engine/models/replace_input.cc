#include "engine/models/replace_input.h"

namespace rivulet {

Status ReplaceInputOfConsumers(Graph& graph, Output before, Output after, const Node* made) {
  for (Node* consumer : graph.Consumers(before)) {
    if (consumer == made) continue;
    for (size_t i = 0; i < consumer->inputs().size(); ++i)
      if (consumer->inputs()[i] == before)
        RIVULET_RETURN_IF_ERROR(graph.ReplaceInput(consumer, static_cast<int>(i), after));
  }
  return absl::OkStatus();
}

}  // namespace rivulet
