// A model: a graph with variables, its inputs, its loss and its metrics. What presets return, what a graph file gives,
// what a plan carries.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

struct ModelInput {
  std::string placeholder;  // "image"
  TensorSpec spec;          // batch first, unknown: [?,28,28,1]
};

struct ModelVariable {
  std::string name;  // VarHandleOp's shared_name, or node name
  TensorSpec spec;
  std::string segment = "trainable";  // attr "_segment" of the VarHandleOp: trainable, shared, local, frozen
};

struct ModelDef {
  Graph graph;  // with a node `init_target` that assigns every variable its first value
  std::string init_target = "init";
  ModelInput image;
  ModelInput label;        // int64 [?]
  int64_t classes = 0;     // labels are 0 .. classes-1
  std::string train_loss;  // scalar tensor names
  std::string eval_loss;
  std::vector<std::pair<std::string, std::string>> metrics;  // ("accuracy", tensor)
  std::vector<ModelVariable> variables;                      // declaration order
};

// The variables of a graph in declaration (node) order. INVALID_ARGUMENT: two of one name, or an unknown shape.
StatusOr<std::vector<ModelVariable>> VariablesOf(const Graph& graph);

}  // namespace rivulet
