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

// Where the nodes of a pass's own loss go.
inline constexpr char kLossScope[] = "objective";

// Variables of an instance over `buffer`: "base_params/<variable>", "state/previous/<variable>"; those over "params"
// keep their names.
std::string InstanceVariable(std::string_view buffer, std::string_view variable);

struct ForwardGraph {
  Graph graph;
  Output loss;
  // Of each instance: the handle of a variable by its name in the model.
  std::vector<std::map<std::string, Output, std::less<>>> handles;
};

// NOT_FOUND, INVALID_ARGUMENT: a loss or a scalar that is no float32 scalar, a placeholder of the loss that stands for
// nothing or for a tensor of another type, something that could write to a buffer that is only read.
StatusOr<ForwardGraph> ComposeForward(const ModelDef& model, const LocalPass& pass);

}  // namespace rivulet
