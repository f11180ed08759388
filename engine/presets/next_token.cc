#include "engine/presets/next_token.h"

#include <algorithm>

#include "engine/base/check.h"
#include "engine/models/metrics/metric.h"
#include "engine/variables/variables.h"

namespace rivulet {
namespace {

Output Ints(const Scope& scope, std::vector<int32_t> values, std::string_view name) {
  return scope.Const(Tensor::Of<int32_t>(Shape{static_cast<int64_t>(values.size())}, std::span<const int32_t>(values)),
                     name);
}

}  // namespace

StatusOr<ModelDef> NextTokenModel(int64_t vocabulary, int64_t length, int64_t padding, const ModelBody& body,
                                  std::span<const std::string> metrics) {
  ModelDef model;
  const Scope scope(model.graph);
  const Output tokens = scope.Placeholder("tokens", DType::kInt64, Shape{kUnknownDim, length});
  const Output label = scope.Placeholder("label", DType::kInt64, Shape{kUnknownDim, length});
  SharedLayers shared;
  Layers layers(scope, /*training=*/false, shared);
  const Output logits = scope.Op("Identity", {body(layers, tokens)}, {}, "logits");
  RIVULET_CHECK(!shared.differs);

  const Output rows = scope.Op(
      "Reshape", {logits, Ints(scope, {-1, static_cast<int32_t>(vocabulary)}, "logits/rows/shape")}, {}, "logits/rows");
  const Output next = scope.Op("Reshape", {label, Ints(scope, {-1}, "label/rows/shape")}, {}, "label/rows");
  const Output none = scope.Const(Tensor::Scalar<int64_t>(padding), "padding");
  const Output counts =
      scope.Op("Cast", {scope.Op("NotEqual", {next, none}, {}, "counts")}, {{"DstT", DType::kFloat32}}, "counts/float");
  const Output all = Ints(scope, {0}, "all");
  // A batch of padding alone has the loss 0.
  const Output total =
      scope.Op("Maximum", {scope.Op("Sum", {counts, all}, {}, "counts/sum"), scope.Const(1.0f, "one")}, {}, "total");
  const auto mean = [&](Output values, std::string_view name) {
    const Output sum = scope.Op("Sum", {scope.Op("Mul", {values, counts}, {}, fmt::format("{}/counted", name)), all},
                                {}, fmt::format("{}/sum", name));
    scope.Op("RealDiv", {sum, total}, {}, name);
  };
  mean(scope.Op("SparseSoftmaxCrossEntropyWithLogits", {rows, next}, {}, "cross_entropy"), "loss");
  const Output axis = scope.Const(Tensor::Scalar<int32_t>(1), "prediction/axis");
  const Output prediction = scope.Op("ArgMax", {rows, axis}, {{"output_type", DType::kInt64}}, "prediction");
  const Output correct = scope.Op("Equal", {prediction, next}, {}, "correct");
  mean(scope.Op("Cast", {correct}, {{"DstT", DType::kFloat32}}, "correct/float"), "accuracy");
  RIVULET_RETURN_IF_ERROR(scope.status());

  model.init_target = kInitTarget;
  model.input = {"tokens", {DType::kInt64, tokens.shape()}, FeatureEncoding::kInt64, 1, vocabulary};
  model.label = {"label", {DType::kInt64, label.shape()}, FeatureEncoding::kInt64, 1, vocabulary};
  model.classes = vocabulary;
  model.train_loss = "loss";
  model.eval_loss = "loss";
  model.metrics = {{"accuracy", "accuracy"}};
  std::vector<std::string> more(metrics.begin(), metrics.end());
  std::erase(more, "accuracy");
  if (!more.empty()) {
    RIVULET_ASSIGN_OR_RETURN(const auto added,
                             AddMetrics(scope, TargetKind::kClass, {rows, next, vocabulary, counts, length}, more));
    model.metrics.insert(model.metrics.end(), added.begin(), added.end());
  }
  RIVULET_ASSIGN_OR_RETURN(model.variables, VariablesOf(model.graph));
  return model;
}

}  // namespace rivulet
