#include "engine/models/classifier.h"

#include <algorithm>

#include "engine/base/nearest.h"
#include "engine/variables/variables.h"

namespace rivulet {
namespace {

// A mean over all elements, by its name.
Output MeanOf(const Scope& scope, Output values, std::string_view name) {
  Tensor axes(DType::kInt32, Shape{values ? values.shape().rank() : 0});
  for (int axis = 0; values && axis < values.shape().rank(); ++axis)
    axes.flat<int32_t>()[static_cast<size_t>(axis)] = axis;
  return scope.Op("Mean", {values, scope.Const(std::move(axes), fmt::format("{}/axes", name))}, {}, name);
}

// One for the label's class, zero for the others.
Output OneHot(const Scope& scope, Output label, int64_t classes) {
  const Output depth = scope.Const(Tensor::Scalar(static_cast<int32_t>(classes)), "one_hot/depth");
  const Output on = scope.Const(1.0f, "one_hot/on"), off = scope.Const(0.0f, "one_hot/off");
  return scope.Op("OneHot", {label, depth, on, off}, {}, "one_hot");
}

Output CrossEntropy(const Scope& scope, Output scores, Output label, int64_t) {
  return scope.Op("SparseSoftmaxCrossEntropyWithLogits", {scores, label}, {}, "cross_entropy");
}

// max(x, 0) − x · z + log(1 + exp(−|x|)), as TensorFlow documents it.
Output SigmoidCrossEntropy(const Scope& scope, Output scores, Output label, int64_t classes) {
  const Output linear =
      scope.Op("Sub", {scope.Op("Relu", {scores}), scope.Op("Mul", {scores, OneHot(scope, label, classes)})});
  return scope.Op("AddV2", {linear, scope.Op("Softplus", {scope.Op("Neg", {scope.Op("Abs", {scores})})})}, {},
                  "cross_entropy");
}

Output SquaredError(const Scope& scope, Output scores, Output label, int64_t classes) {
  return scope.Op("SquaredDifference", {scores, OneHot(scope, label, classes)}, {}, "squared_error");
}

constexpr std::pair<std::string_view, Output (*)(const Scope&, Output, Output, int64_t)> kLosses[] = {
    {"sparse_softmax_cross_entropy", CrossEntropy},
    {"sigmoid_cross_entropy", SigmoidCrossEntropy},
    {"mse", SquaredError},
};

class Builder {
 public:
  Builder(const ClassifierOptions& options, const ModelBody& body)
      : options_(options), body_(body), scope_(model_.graph) {}

  StatusOr<ModelDef> Build() {
    for (const auto& [name, loss] : kLosses)
      if (name == options_.loss) loss_ = loss;
    if (loss_ == nullptr)
      return NotFound("there is no loss '{}'.{} Losses are {}", options_.loss, DidYouMean(options_.loss, LossNames()),
                      fmt::join(LossNames(), ", "));
    const bool tokens = options_.encoding == FeatureEncoding::kInt64;
    const std::string name = tokens ? "tokens" : "image";
    std::vector<int64_t> dims = {kUnknownDim};
    dims.insert(dims.end(), options_.input.begin(), options_.input.end());
    RIVULET_RETURN_IF_ERROR(Annotate(Shape(options_.input).CheckedElements().status(), "the model's input"));
    input_ = scope_.Placeholder(name, tokens ? DType::kInt64 : DType::kFloat32, Shape(dims));
    RIVULET_RETURN_IF_ERROR(Evaluation());
    model_.eval_loss = model_.train_loss = "loss";
    if (shared_.differs) RIVULET_RETURN_IF_ERROR(Training());

    model_.init_target = kInitTarget;
    model_.input = {name, {input_.dtype(), input_.shape()}, options_.encoding, 1, tokens ? options_.vocabulary : 0};
    if (options_.encoding == FeatureEncoding::kUint8) model_.input.scale = 1.0 / 255.0;
    model_.label = {"label", {DType::kInt64, label_.shape()}, FeatureEncoding::kInt64, 1, classes_};
    model_.classes = classes_;
    model_.metrics = {{"accuracy", "accuracy"}};
    if (shared_.dense_input) model_.outputs.emplace_back("representation", shared_.dense_input.name());
    model_.outputs.emplace_back("logits", logits_);
    model_.train_updates = shared_.updates;
    RIVULET_ASSIGN_OR_RETURN(model_.variables, VariablesOf(model_.graph));
    if (model_.variables.empty()) return InvalidArgument("the model has no variables, so there is nothing to train");
    return std::move(model_);
  }

 private:
  Status Evaluation() {
    Layers layers(scope_, false, shared_);
    const Output scores = body_(layers, input_);
    RIVULET_RETURN_IF_ERROR(scope_.status());
    const int rank = scores && scores.shape().known_rank() ? scores.shape().rank() : 0;
    if ((rank != 2 && rank != 3) || scores.dtype() != DType::kFloat32)
      return InvalidArgument(
          "the model's output is {}{}, but must be one score per class, float32 [?,classes] or [?,positions,classes]",
          scores ? rivulet::Name(scores.dtype()) : "nothing", scores ? scores.shape().ToString() : "");
    classes_ = scores.shape().dim(rank - 1);
    if (options_.classes != 0 && classes_ != options_.classes)
      return InvalidArgument("the model's output has {} classes, but {} are asked for", classes_, options_.classes);
    label_ = scope_.Placeholder("label", DType::kInt64,
                                rank == 2 ? Shape{kUnknownDim} : Shape{kUnknownDim, scores.shape().dim(1)});
    positions_ = rank == 3;
    flat_label_ = Rows(scope_, label_, {-1});
    const Output logits = Rows(scope_, scope_.Op("Identity", {scores}, {}, "logits"), {-1, classes_});
    logits_ = logits.name();
    Loss(scope_, logits);
    const Output axis = scope_.Const(Tensor::Scalar<int32_t>(1), "prediction/axis");
    const Output prediction = scope_.Op("ArgMax", {logits, axis}, {{"output_type", DType::kInt64}}, "prediction");
    const Output correct = scope_.Op("Equal", {prediction, flat_label_}, {}, "correct");
    MeanOf(scope_, scope_.Op("Cast", {correct}, {{"DstT", DType::kFloat32}}, "correct/float"), "accuracy");
    return scope_.status();
  }

  Status Training() {
    const Scope training = scope_.SubScope("training");
    Layers layers(training, true, shared_);
    const Output scores = body_(layers, input_);
    RIVULET_RETURN_IF_ERROR(scope_.status());
    const Output logits = Rows(training, scores, {-1, classes_});
    logits_ = logits.name();
    Loss(training, logits);
    model_.train_loss = training.prefix() + "loss";
    return scope_.status();
  }

  // One row per label.
  Output Rows(const Scope& scope, Output x, std::initializer_list<int64_t> dims) const {
    if (!positions_) return x;
    Tensor shape(DType::kInt32, Shape{static_cast<int64_t>(dims.size())});
    std::copy(dims.begin(), dims.end(), shape.flat<int32_t>().begin());
    return scope.Op("Reshape", {x, scope.Const(std::move(shape))});
  }

  void Loss(const Scope& scope, Output logits) const {
    MeanOf(scope, loss_(scope, logits, flat_label_, classes_), "loss");
  }

  const ClassifierOptions& options_;
  const ModelBody& body_;
  ModelDef model_;
  Scope scope_;
  SharedLayers shared_;
  Output (*loss_)(const Scope&, Output, Output, int64_t) = nullptr;
  Output input_, label_, flat_label_;
  std::string logits_;  // of training
  bool positions_ = false;
  int64_t classes_ = 0;
};

}  // namespace

std::vector<std::string> LossNames() {
  std::vector<std::string> names;
  for (const auto& [name, loss] : kLosses) names.emplace_back(name);
  return names;
}

StatusOr<ModelDef> Classifier(const ClassifierOptions& options, const ModelBody& body) {
  return Builder(options, body).Build();
}

}  // namespace rivulet
