// Forward part of a step: the instances of the model and the loss, in one graph, before any gradient.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/models/model_def.h"
#include "federated/plan/pass.h"

namespace rivulet {

// Scope of the nodes of a pass's own loss.
inline constexpr char kLossScope[] = "objective";

// Variables of an instance over `buffer`: "base_params/<variable>", "state/previous/<variable>"; those over "params"
// keep their names.
std::string InstanceVariable(std::string_view buffer, std::string_view variable);

struct ForwardGraph {
  Graph graph;
  Output loss;
  // For each instance: the handle of a variable by its name in the model.
  std::vector<std::map<std::string, Output, std::less<>>> handles;
};

// NOT_FOUND, INVALID_ARGUMENT: a loss or scalar that is not a float32 scalar, a placeholder of the loss without a
// tensor or with one of another type, an op that could write to a read-only buffer.
StatusOr<ForwardGraph> ComposeForward(const ModelDef& model, const LocalPass& pass);

}  // namespace rivulet
