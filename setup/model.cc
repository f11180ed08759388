#include "setup/model.h"

#include <string>
#include <string_view>

#include "engine/base/file_system.h"
#include "engine/models/freeze.h"
#include "engine/models/layer_list.h"
#include "engine/onnx/trainable.h"
#include "engine/presets/presets.h"

namespace rivulet {
namespace {

FeatureEncoding EncodingOf(const std::string& kind) {
  return kind == "tokens"   ? FeatureEncoding::kInt64
         : kind == "values" ? FeatureEncoding::kFloat
                            : FeatureEncoding::kUint8;
}

StatusOr<ModelDef> FromLayers(const ModelConfig& config) {
  if (config.input.shape.empty())
    return InvalidArgument("model.layers needs model.input.shape, the shape of one example, such as [28, 28, 1]");
  ClassifierOptions options;
  options.input = config.input.shape;
  options.loss = config.objective;
  options.encoding = EncodingOf(config.input.kind);
  return ModelFromLayers(options, config.layers);
}

StatusOr<ModelDef> FromGraph(const ModelConfig& config) {
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes, FileSystem::Default().ReadAll(config.graph));
  GraphModelSpec spec;
  spec.image = config.image_input;
  spec.label = config.label_input;
  spec.loss = config.loss;
  spec.metrics.clear();
  for (const std::string& tensor : config.metrics)
    spec.metrics.emplace_back(tensor.substr(0, tensor.find(':')), tensor);
  spec.text = config.graph.ends_with(".pbtxt");
  StatusOr<ModelDef> model = ModelFromGraph(bytes, spec);
  if (!model.ok()) return Annotate(model.status(), config.graph);
  return model;
}

StatusOr<ModelDef> FromOnnx(const ModelConfig& config) {
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes, FileSystem::Default().ReadAll(config.onnx));
  onnx::TrainableOptions options;
  options.input = config.input.shape;
  options.encoding = EncodingOf(config.input.kind);
  options.loss = config.objective;
  options.folder = FolderOf(config.onnx);
  StatusOr<ModelDef> model = onnx::ModelFromOnnx(bytes, options);
  if (!model.ok()) return Annotate(model.status(), config.onnx);
  return model;
}

StatusOr<ModelDef> Whole(const ModelConfig& config) {
  if (!config.preset.empty())
    return Preset(config.preset,
                  {.classes = config.classes, .input = config.input.shape, .normalization = config.normalization});
  if (!config.onnx.empty()) return FromOnnx(config);
  return config.layers.empty() ? FromGraph(config) : FromLayers(config);
}

}  // namespace

StatusOr<ModelDef> ModelOf(const Scenario& scenario) {
  RIVULET_ASSIGN_OR_RETURN(ModelDef model, Whole(scenario.model));
  RIVULET_RETURN_IF_ERROR(Annotate(Freeze(model, scenario.model.freeze), "model.freeze"));
  RIVULET_RETURN_IF_ERROR(Annotate(MakePersonal(model, scenario.model.personal), "model.personal"));
  return model;
}

}  // namespace rivulet
