#include "simulations/scenario_model.h"

#include <string>
#include <string_view>

#include "engine/base/file_system.h"
#include "engine/models/presets.h"

namespace rivulet {

StatusOr<ModelDef> ModelOf(const Scenario& scenario) {
  const ModelConfig& config = scenario.model;
  if (!config.preset.empty()) return Preset(config.preset);
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

}  // namespace rivulet
