#include "federated/plan/loss_scope.h"

#include <algorithm>
#include <utility>

namespace rivulet {

LossScope::LossScope(const ModelDef& model, const Graph& graph) : model_(model), model_graph_(graph), scope_(graph_) {}

Output LossScope::StandFor(const std::string& tensor, std::string_view instance) {
  const StatusOr<Output> output = model_graph_.FindOutput(tensor);
  if (!output.ok()) {
    scope_.Fail(output.status());
    return {};
  }
  const std::string name = fmt::format("input{}", inputs_.size());
  // All instances share the fed tensors (compose_pass.cc).
  const bool fed = output->node->type() == "Placeholder";
  inputs_[name] = instance.empty() || fed ? tensor : fmt::format("{}/{}", instance, tensor);
  return scope_.Placeholder(name, output->dtype(), output->shape());
}

Output LossScope::Loss(std::string_view instance) { return StandFor(model_.train_loss, instance); }

Output LossScope::Of(std::string_view output, std::string_view instance) {
  const auto named = std::ranges::find(model_.outputs, output, &std::pair<std::string, std::string>::first);
  if (named == model_.outputs.end()) {
    scope_.Fail(InvalidArgument(
        "the model does not name its {}, which this loss needs; presets and models of layers with a dense layer do",
        output));
    return {};
  }
  const Output value = StandFor(named->second, instance);
  if (!value || value.dtype() == DType::kFloat32) return value;
  return scope_.Op("Cast", {value}, {{"DstT", DType::kFloat32}});
}

StatusOr<Graph> LossScope::Finish(Output loss) && {
  RIVULET_RETURN_IF_ERROR(scope_.status());
  scope_.Op("Identity", {loss}, {}, "loss");
  RIVULET_RETURN_IF_ERROR(scope_.status());
  return std::move(graph_);
}

}  // namespace rivulet
