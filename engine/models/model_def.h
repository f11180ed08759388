// A model: a graph with variables, its inputs, its loss and its metrics. Presets, graph files and plans all give one. A
// model for external training has variables alone and no graph.
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

// How a feature of a tf.train.Example becomes the values of a placeholder: the bytes of one string (float32), a list of
// floats (float32), a list of integers (int64).
enum class FeatureEncoding { kUint8, kFloat, kInt64 };

struct ModelInput {
  std::string placeholder;  // "image"
  TensorSpec spec;          // batch first, unknown: [?,28,28,1]; an example has as many values as the rest says
  FeatureEncoding encoding = FeatureEncoding::kUint8;
  double scale = 1;         // of kUint8 and kFloat: the model sees value × scale
  int64_t upper_bound = 0;  // of kInt64: values are 0 .. upper_bound-1; 0: any
  std::string feature;      // its name in the examples where nobody says another; empty: the placeholder's
};

// An input that somebody describes, such as a table of a scenario's [[model.inputs]].
struct InputSpec {
  std::string name;            // of the placeholder; layers call it so
  std::vector<int64_t> shape;  // of one example; empty: that of the file that the model comes from
  FeatureEncoding encoding = FeatureEncoding::kUint8;
  int64_t vocabulary = 0;  // of kInt64: values are 0 .. vocabulary-1; 0: any, or what an embedding says
  std::string feature;     // its name in the examples; empty: `name`
};

struct ModelVariable {
  std::string name;  // VarHandleOp's shared_name, or node name
  TensorSpec spec;
  std::string segment = "trainable";  // attr "_segment" of the VarHandleOp: trainable, shared, local, frozen, base
};

struct ModelDef {
  Graph graph;  // with a node `init_target` that assigns every variable its first value
  std::string init_target = "init";
  ModelInput input;                     // what the model sees
  std::vector<ModelInput> more_inputs;  // beside the first, of a model of several
  ModelInput label;        // int64: a class per example [?], or one per position [?,length]; or as TargetKind has them
  int64_t classes = 0;     // classes are 0 .. classes-1; of other targets without meaning
  std::string train_loss;  // scalar tensor names
  std::string eval_loss;
  std::vector<std::pair<std::string, std::string>> metrics;  // ("accuracy", tensor)
  // Tensors of training that algorithms ask for by these names: "representation", what the last dense layer takes, and
  // "logits", one score per class. Nothing of a graph that somebody else wrote.
  std::vector<std::pair<std::string, std::string>> outputs;
  // Nodes that a training step runs beside the gradient, such as assignments of running averages.
  std::vector<std::string> train_updates;
  std::vector<ModelVariable> variables;  // declaration order
  Digest initial_model;                  // without a graph: model_digest of the values that the variables begin with
  std::optional<Digest> base;            // of the base that has the variables of segment base

  // Without one nothing above but `variables`, `metrics` (names, whose tensors are "") and `initial_model` is given.
  bool has_graph() const { return !graph.nodes().empty(); }
};

// The variables of a graph in declaration (node) order, each once, without optimisers' slots (segment "slot").
// INVALID_ARGUMENT: two of one name that differ, an unknown shape, an unknown segment.
StatusOr<std::vector<ModelVariable>> VariablesOf(const Graph& graph);

// Where to find a model's parts in a graph that someone else wrote; tensor names are "node" or "node:port".
struct GraphModelSpec {
  std::string image = "image";  // placeholder, float32, batch first
  // In its place the placeholders of a model of several inputs, or of one that is fed otherwise: float32, or of
  // tokens int64 or int32.
  std::vector<InputSpec> inputs;
  // Placeholder of class numbers, int64 or int32, [?] or [?,1]; or of numbers to be predicted, float32, batch first.
  std::string label = "label";
  std::string loss = "loss";  // float32 scalar, mean over the batch
  std::string eval_loss;      // empty: the same
  std::vector<std::pair<std::string, std::string>> metrics = {{"accuracy", "accuracy"}};  // name, float32 scalar tensor
  std::string init_target = "init";
  int64_t classes = 0;  // 0: as many as the logits of the loss have; without meaning where labels are float32
  bool text = false;    // GraphDef's text format
};

// A model from the bytes of a GraphDef, such as TensorFlow's Python writes (tf.compat.v1, with resource or reference
// variables). Only what loss and metrics need is imported, and the first values of their variables: an
// optimiser, its slots and a saver are left behind. An int32 label, or input of
// tokens, gets an int64 placeholder "<name>/int64" and a cast. DATA_LOSS: no GraphDef. NOT_FOUND: a part that is not
// there (names the nearest). INVALID_ARGUMENT: a part of another type or shape than said above, a variable without
// first value. Others as ParseGraph.
StatusOr<ModelDef> ModelFromGraph(std::string_view graph_def, const GraphModelSpec& spec);

}  // namespace rivulet
