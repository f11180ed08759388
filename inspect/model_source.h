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
  std::string weights;                  // a safetensors file, such as those of a run's history; empty: the first values
  std::vector<std::string> outputs;     // tensors; empty: the scores, or of a file what no node uses
  std::string db = "./rivulet.sqlite";  // the history that has the run
  std::optional<int64_t> cluster = {};  // which of a run's models (run_model.h)
  std::string base = {};                // where the base of a run over one is; "": where its model.base says
};

using NamedWeights = std::vector<std::pair<std::string, Tensor>>;  // in order of declaration

struct ModelSource {
  std::string title;  // as `what`
  // Of a graph file without a loss only the graph and its variables.
  ModelDef model;
  bool has_loss = false;
  bool weights_alone = false;  // there is no graph: clients train the run in their own way (model.arrays)
  std::vector<std::string> outputs;
  // Of a scenario or a run with adapters: the model without them. Null: it has none.
  std::function<StatusOr<ModelDef>()> base;
  // The values of all variables, but those that a weights file leaves out. FAILED_PRECONDITION: nothing gives them.
  std::function<StatusOr<NamedWeights>()> weights;
};

// The same model without its adapters, whose products are added to the weights that they stand beside
// (engine/models/lora.h). A usage error: it has no adapters. Others as ModelOf and MergeLora.
StatusOr<ModelSource> WithoutAdapters(const ModelSource& source);

// A usage error: nothing of that name, an output that the graph has not. Others as Scenario::Load, ParseGraph,
// ImportOnnx.
StatusOr<ModelSource> LoadModelSource(const ModelSourceOptions& options);

// The tensor that the loss is computed from, which has a score for each class: "logits", or what goes into the
// cross-entropy; "": none is known.
std::string ScoresOf(const ModelDef& model);

// The tensors of a safetensors file. DATA_LOSS and UNIMPLEMENTED as ParseSafetensors, with the path.
StatusOr<NamedWeights> ReadSafetensors(const std::string& path);

}  // namespace rivulet
