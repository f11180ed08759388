// Builder of a pass's loss over the outputs of its model instances. It is a separate graph; its placeholders stand for
// tensors of the composed graph.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/graph/scope.h"
#include "engine/models/model_def.h"

namespace rivulet {

// Errors stick, as a Scope's do, and Finish tells the first.
class LossScope {
 public:
  // `graph` is the model's as clients run it. Both must outlive this.
  LossScope(const ModelDef& model, const Graph& graph);

  // The model's own training loss, of the instance with this prefix.
  Output Loss(std::string_view instance = "");
  // What the model calls so (ModelDef::outputs), float32. A model that calls nothing so cannot have this loss.
  Output Of(std::string_view output, std::string_view instance = "");
  const Scope& scope() const { return scope_; }

  // The graph with the node `loss`. The scope is empty afterwards. INVALID_ARGUMENT: what a node refused, an output
  // that the model does not name.
  StatusOr<Graph> Finish(Output loss) &&;
  // Which tensor each placeholder stands for.
  const std::map<std::string, std::string>& inputs() const { return inputs_; }

 private:
  Output StandFor(const std::string& tensor, std::string_view instance);

  const ModelDef& model_;
  const Graph& model_graph_;
  Graph graph_;
  Scope scope_;
  std::map<std::string, std::string> inputs_;
};

}  // namespace rivulet
