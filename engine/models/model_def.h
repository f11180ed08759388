// A model: a graph with variables, its inputs, its loss and its metrics. Presets, graph files and plans produce one. A
// model for external training has variables and no graph.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

// The conversion of a feature of a tf.train.Example to the values of a placeholder: the bytes of one string (float32),
// a list of floats (float32), or a list of integers (int64).
enum class FeatureEncoding { kUint8, kFloat, kInt64 };

struct ModelInput {
  std::string placeholder;  // "image"
  TensorSpec spec;          // batch first, unknown: [?,28,28,1]; an example has as many values as the rest of the shape
  FeatureEncoding encoding = FeatureEncoding::kUint8;
  double scale = 1;         // of kUint8 and kFloat: the model receives value × scale
  int64_t upper_bound = 0;  // of kInt64: values are 0 .. upper_bound-1; 0: any
  std::string feature;      // default name in the examples; empty: the placeholder's
};

// An input described by the user, for example by a table of a scenario's [[model.inputs]].
struct InputSpec {
  std::string name;            // of the placeholder; layers use this name
  std::vector<int64_t> shape;  // of one example; empty: the shape in the model's file
  FeatureEncoding encoding = FeatureEncoding::kUint8;
  int64_t vocabulary = 0;  // of kInt64: values are 0 .. vocabulary-1; 0: any, or an embedding's size
  std::string feature;     // its name in the examples; empty: `name`
};

struct ModelVariable {
  std::string name;  // VarHandleOp's shared_name, or node name
  TensorSpec spec;
  std::string segment = "trainable";  // attr "_segment" of the VarHandleOp: trainable, shared, local, frozen, base
};

struct ModelDef {
  Graph graph;  // with a node `init_target` that assigns every variable its initial value
  std::string init_target = "init";
  ModelInput input;                     // the model's first or only input
  std::vector<ModelInput> more_inputs;  // further inputs, if the model has several
  ModelInput label;        // int64: a class per example [?], or one per position [?,length]; or as TargetKind says
  int64_t classes = 0;     // classes are 0 .. classes-1; meaningless for other targets
  std::string train_loss;  // scalar tensor names
  std::string eval_loss;
  std::vector<std::pair<std::string, std::string>> metrics;  // ("accuracy", tensor)
  // Training tensors that algorithms request by these names: "representation", the input of the last dense layer, and
  // "logits", one score per class. Empty for imported graphs.
  std::vector<std::pair<std::string, std::string>> outputs;
  // Nodes that a training step runs in addition to the gradient, such as assignments of running averages.
  std::vector<std::string> train_updates;
  std::vector<ModelVariable> variables;  // declaration order
  Digest initial_model;                  // without a graph: model_digest of the variables' initial values
  std::optional<Digest> base;            // of the base with the variables of segment base

  // A model without a graph has only `variables`, `metrics` (names with "" as tensors) and `initial_model`.
  bool has_graph() const { return !graph.nodes().empty(); }
};

// Returns the variables of a graph in declaration (node) order, each once, without optimisers' slots (segment "slot").
// INVALID_ARGUMENT: two variables of one name that differ, an unknown shape, an unknown segment.
StatusOr<std::vector<ModelVariable>> VariablesOf(const Graph& graph);

// The names of a model's parts in an imported graph; tensor names are "node" or "node:port".
struct GraphModelSpec {
  std::string image = "image";  // placeholder, float32, batch first
  // Replaces `image` for models with several inputs, or with another type of input: placeholders of float32, or of
  // int64 or int32 for tokens.
  std::vector<InputSpec> inputs;
  // Placeholder of class numbers, int64 or int32, [?] or [?,1]; or of numbers to predict, float32, batch first.
  std::string label = "label";
  std::string loss = "loss";  // float32 scalar, mean over the batch
  std::string eval_loss;      // empty: equal to `loss`
  std::vector<std::pair<std::string, std::string>> metrics = {{"accuracy", "accuracy"}};  // name, float32 scalar tensor
  std::string init_target = "init";
  int64_t classes = 0;  // 0: from the width of the loss's logits; meaningless if labels are float32
  bool text = false;    // the file is in GraphDef's text format
};

// Makes a model from the bytes of a GraphDef, as written by TensorFlow's Python API (tf.compat.v1, with resource or
// reference variables). Imports only the nodes that loss and metrics need, and the initial values of their variables:
// an optimiser, its slots and a saver are omitted. An int32 label or token input gets an int64 placeholder
// "<name>/int64" and a cast. DATA_LOSS: not a GraphDef. NOT_FOUND: a part is missing (names the nearest).
// INVALID_ARGUMENT: a part has another type or shape than stated above, or a variable lacks an initial value. Others as
// ParseGraph.
StatusOr<ModelDef> ModelFromGraph(std::string_view graph_def, const GraphModelSpec& spec);

}  // namespace rivulet
