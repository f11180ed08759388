// Model argument of the commands under `rivulet model`: a model in any of its named forms, and its weights.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/models/model_def.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

struct ModelSourceOptions {
  // PRESET, SCENARIO.toml, FILE.pb, FILE.pbtxt, FILE.onnx, a folder of `model import`, or RUN[:ROUND] (run_model.h)
  std::string what;
  std::string weights;                  // a safetensors file, such as those in a run's history; empty: the initial ones
  std::vector<std::string> outputs;     // tensors; empty: the scores, or for a file the tensors that no node uses
  std::string db = "./rivulet.sqlite";  // the history that has the run
  std::optional<int64_t> cluster = {};  // the index of one of a run's models (run_model.h)
  std::string base = {};                // path of the base, if the run has one; "": the path in its model.base
};

using NamedWeights = std::vector<std::pair<std::string, Tensor>>;  // in order of declaration

struct ModelSource {
  std::string title;  // as `what`
  // The model; for a graph file without a loss, only the graph and its variables.
  ModelDef model;
  bool has_loss = false;
  bool weights_alone = false;  // there is no graph: clients train the run with their own code (model.arrays)
  std::vector<std::string> outputs;
  // For a scenario or a run with adapters: the model without them. Null: it has none.
  std::function<StatusOr<ModelDef>()> base;
  // The values of all variables, except those that a weights file omits. FAILED_PRECONDITION: there are no values.
  std::function<StatusOr<NamedWeights>()> weights;
};

// The same model without its adapters: their products are added to the weights that they extend (engine/models/lora.h).
// A usage error: it has no adapters. Other errors as ModelOf and MergeLora.
StatusOr<ModelSource> WithoutAdapters(const ModelSource& source);

// A usage error: no model of that name, or an output that the graph lacks. Other errors as Scenario::Load, ParseGraph,
// ImportOnnx.
StatusOr<ModelSource> LoadModelSource(const ModelSourceOptions& options);

// The tensor that the loss is computed from, with a score for each class: "logits", or the input of the cross-entropy;
// "": none is known.
std::string ScoresOf(const ModelDef& model);

// The tensors of a safetensors file. DATA_LOSS and UNIMPLEMENTED as ParseSafetensors, with the path.
StatusOr<NamedWeights> ReadSafetensors(const std::string& path);

}  // namespace rivulet
