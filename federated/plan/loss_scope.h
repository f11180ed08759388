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

// Errors are kept as in Scope; Finish returns the first.
class LossScope {
 public:
  // `graph` is the model's as clients run it. Both arguments must outlive this.
  LossScope(const ModelDef& model, const Graph& graph);

  // The model's own training loss, for the instance with this prefix.
  Output Loss(std::string_view instance = "");
  // The model's output of this name (ModelDef::outputs), float32. Models without such an output cannot use the loss.
  Output Of(std::string_view output, std::string_view instance = "");
  const Scope& scope() const { return scope_; }

  // Returns the graph with the node `loss`. The scope is empty afterwards. INVALID_ARGUMENT: an invalid node, an output
  // that the model does not name.
  StatusOr<Graph> Finish(Output loss) &&;
  // The tensor of the composed graph for each placeholder.
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
