// Layers of layers/layers.h that normalise.
#include "engine/layers/layers.h"
#include "engine/variables/variables.h"

namespace rivulet {

// Rows are images of one pixel: the fused op knows images only, and its statistics over [batch, 1, 1] are those over
// the batch. The running statistics are in the segment "shared": no gradient trains them, yet they belong to the model
// and are averaged over clients as weights are.
Output Layers::BatchNorm(std::string_view name, Output x, const BatchNormOptions& options) {
  const bool flat = x && x.shape().known_rank() && x.shape().rank() == 2;
  if (!Check(name, x, flat ? 2 : 4, "batch_norm")) return {};
  shared_.differs = true;
  const Scope layer = scope_.SubScope(name);
  const int64_t width = x.shape().dim(x.shape().rank() - 1);
  const Shape channels{width};
  const auto constant = [&](float value, std::string_view what) {
    Tensor tensor(DType::kFloat32, channels);
    for (float& element : tensor.flat<float>()) element = value;
    return layer.Const(std::move(tensor), what);
  };
  const Output gamma = options.scale ? Weight(layer, name, "gamma", channels, Ones()) : constant(1, "one");
  const Output beta = options.center ? Weight(layer, name, "beta", channels, Zeros()) : constant(0, "zero");
  const Output mean = Weight(layer, name, "moving_mean", channels, Zeros(), "shared");
  const Output variance = Weight(layer, name, "moving_variance", channels, Ones(), "shared");
  if (!scope_.status().ok()) return {};
  if (flat) {
    const auto size = static_cast<int32_t>(width);
    x = layer.Op("Reshape", {x, layer.Const(Tensor::Of<int32_t>(Shape{4}, {-1, 1, 1, size}))});
  }
  Node* node = layer.AddNode("FusedBatchNormV3", {x, gamma, beta, mean, variance},
                             {{"epsilon", static_cast<float>(options.epsilon)},
                              {"exponential_avg_factor", static_cast<float>(training_ ? 1 - options.momentum : 1)},
                              {"is_training", training_}});
  if (node == nullptr) return {};
  if (training_) {
    // The op gives the running statistics as they are after this step.
    const std::pair<Output, Output> averages[] = {{mean, node->output(1)}, {variance, node->output(2)}};
    for (const auto& [read, next] : averages) {
      const Node* assign = layer.AddNode("AssignVariableOp", {read.node->input(0), next}, {}, "Update");
      if (assign != nullptr) shared_.updates.push_back(assign->name());
    }
  }
  if (!flat) return node->output(0);
  const auto size = static_cast<int32_t>(width);
  return layer.Op("Reshape", {node->output(0), layer.Const(Tensor::Of<int32_t>(Shape{2}, {-1, size}))});
}

namespace {

int64_t LastOf(const Output& x) { return x.shape().dim(x.shape().rank() - 1); }

}  // namespace

Output Layers::LayerNorm(std::string_view name, Output x, double epsilon) {
  if (!Check(name, x, 0, "layer_norm")) return {};
  const Scope layer = scope_.SubScope(name);
  const Shape width{LastOf(x)};
  const Output gamma = Weight(layer, name, "gamma", width, Ones()), beta = Weight(layer, name, "beta", width, Zeros());
  return layer.Op("LayerNorm", {x, gamma, beta}, {{"epsilon", static_cast<float>(epsilon)}});
}

Output Layers::GroupNorm(std::string_view name, Output x, int64_t groups, double epsilon) {
  if (!Check(name, x, 4, "group_norm")) return {};
  const Scope layer = scope_.SubScope(name);
  const Shape width{LastOf(x)};
  const Output gamma = Weight(layer, name, "gamma", width, Ones()), beta = Weight(layer, name, "beta", width, Zeros());
  return layer.Op("GroupNorm", {x, gamma, beta}, {{"num_groups", groups}, {"epsilon", static_cast<float>(epsilon)}});
}

Output Layers::InstanceNorm(std::string_view name, Output x, double epsilon) {
  if (!Check(name, x, 4, "instance_norm")) return {};
  const Scope layer = scope_.SubScope(name);
  const Shape width{LastOf(x)};
  const Output gamma = Weight(layer, name, "gamma", width, Ones()), beta = Weight(layer, name, "beta", width, Zeros());
  return layer.Op("InstanceNorm", {x, gamma, beta}, {{"epsilon", static_cast<float>(epsilon)}});
}

}  // namespace rivulet
