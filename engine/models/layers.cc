#include "engine/models/layers.h"

#include <string>

#include "engine/models/initializers.h"
#include "engine/models/variables.h"

namespace rivulet {
namespace {

Output BiasAndActivation(const Scope& layer, Output x, int64_t width, Activation activation) {
  const Output bias = Variable(layer, "bias", Shape{width}, Zeros());
  x = layer.Op("BiasAdd", {x, bias});
  return activation == Activation::kRelu ? layer.Op("Relu", {x}) : x;
}

Output IntVector(const Scope& scope, std::initializer_list<int32_t> values, std::string_view name) {
  return scope.Const(Tensor::Of<int32_t>(Shape{static_cast<int64_t>(values.size())}, values), name);
}

Output BatchMean(const Scope& scope, Output values, std::string_view name) {
  return scope.Op("Mean", {values, IntVector(scope, {0}, fmt::format("{}/axes", name))}, {}, name);
}

}  // namespace

Output Dense(const Scope& scope, std::string_view name, Output x, int64_t in, int64_t units, Activation activation) {
  const Scope layer = scope.SubScope(name);
  const Output kernel = Variable(layer, "kernel", Shape{in, units}, GlorotUniform());
  return BiasAndActivation(layer, layer.Op("MatMul", {x, kernel}), units, activation);
}

Output Convolution(const Scope& scope, std::string_view name, Output x, int64_t size, int64_t in, int64_t filters,
                   Activation activation) {
  const Scope layer = scope.SubScope(name);
  const Output kernel = Variable(layer, "kernel", Shape{size, size, in, filters}, GlorotUniform());
  const Output convolved = layer.Op("Conv2D", {x, kernel},
                                    {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", std::string("SAME")}});
  return BiasAndActivation(layer, convolved, filters, activation);
}

Output MaxPool2(const Scope& scope, std::string_view name, Output x) {
  return scope.Op("MaxPool", {x},
                  {{"ksize", std::vector<int64_t>{1, 2, 2, 1}},
                   {"strides", std::vector<int64_t>{1, 2, 2, 1}},
                   {"padding", std::string("SAME")}},
                  name);
}

Output Flatten(const Scope& scope, Output x, int64_t features) {
  const Scope layer = scope.SubScope("flatten");
  return layer.Op("Reshape", {x, IntVector(layer, {-1, static_cast<int32_t>(features)}, "shape")});
}

StatusOr<ModelDef> Classifier(int64_t classes, Output (*body)(const Scope& scope, Output image)) {
  ModelDef model;
  const Scope scope(model.graph);
  const Output image = scope.Placeholder("image", DType::kFloat32, Shape{kUnknownDim, 28, 28, 1});
  const Output label = scope.Placeholder("label", DType::kInt64, Shape{kUnknownDim});
  const Output logits = scope.Op("Identity", {body(scope, image)}, {}, "logits");

  const Output losses = scope.Op("SparseSoftmaxCrossEntropyWithLogits", {logits, label}, {}, "cross_entropy");
  BatchMean(scope, losses, "loss");
  const Output axis = scope.Const(Tensor::Scalar<int32_t>(1), "prediction/axis");
  const Output prediction = scope.Op("ArgMax", {logits, axis}, {{"output_type", DType::kInt64}}, "prediction");
  const Output correct = scope.Op("Equal", {prediction, label}, {}, "correct");
  BatchMean(scope, scope.Op("Cast", {correct}, {{"DstT", DType::kFloat32}}, "correct/float"), "accuracy");
  RIVULET_RETURN_IF_ERROR(scope.status());

  model.init_target = kInitTarget;
  model.input = {"image", {DType::kFloat32, image.shape()}, FeatureEncoding::kUint8, 1.0 / 255.0};
  model.label = {"label", {DType::kInt64, label.shape()}, FeatureEncoding::kInt64, 1, classes};
  model.classes = classes;
  model.train_loss = "loss";
  model.eval_loss = "loss";
  model.metrics = {{"accuracy", "accuracy"}};
  RIVULET_ASSIGN_OR_RETURN(model.variables, VariablesOf(model.graph));
  return model;
}

}  // namespace rivulet
