#include "engine/models/classifier.h"

#include <algorithm>

#include "engine/variables/variables.h"

namespace rivulet {
namespace {

class Builder {
 public:
  Builder(const ClassifierOptions& options, const ModelBody& body)
      : options_(options), body_(body), scope_(model_.graph) {}

  StatusOr<ModelDef> Build() {
    RIVULET_ASSIGN_OR_RETURN(objective_, FindObjective(options_.target, options_.loss));
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
    const bool integers = options_.target != TargetKind::kNumbers;
    model_.label = {"label", label_.node->outputs()[0], integers ? FeatureEncoding::kInt64 : FeatureEncoding::kFloat};
    if (integers) model_.label.upper_bound = options_.target == TargetKind::kClass ? classes_ : 2;
    model_.classes = classes_;
    if (shared_.dense_input) model_.outputs.emplace_back("representation", shared_.dense_input.name());
    model_.outputs.emplace_back(integers ? "logits" : "prediction", logits_);
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
    RIVULET_RETURN_IF_ERROR(CheckOutput(scores));
    if (options_.target == TargetKind::kClass) {
      const int rank = scores.shape().rank();
      classes_ = scores.shape().dim(rank - 1);
      if (options_.classes != 0 && classes_ != options_.classes)
        return InvalidArgument("the model's output has {} classes, but {} are asked for", classes_, options_.classes);
      label_ = scope_.Placeholder("label", DType::kInt64,
                                  rank == 2 ? Shape{kUnknownDim} : Shape{kUnknownDim, scores.shape().dim(1)});
      positions_ = rank == 3;
    } else {
      label_ = scope_.Placeholder("label", options_.target == TargetKind::kLabels ? DType::kInt64 : DType::kFloat32,
                                  scores.shape());
    }
    flat_label_ = Rows(scope_, label_, {-1});
    const std::string_view name = options_.target == TargetKind::kNumbers ? "prediction" : "logits";
    const Output logits = Rows(scope_, scope_.Op("Identity", {scores}, {}, name), {-1, classes_});
    logits_ = logits.name();
    Loss(scope_, logits);
    model_.metrics = AddMetrics(scope_, options_.target, {logits, flat_label_, classes_});
    return scope_.status();
  }

  Status CheckOutput(const Output& scores) const {
    const bool known = scores && scores.shape().known_rank() && scores.dtype() == DType::kFloat32;
    const int rank = known ? scores.shape().rank() : 0;
    if (options_.target == TargetKind::kClass) {
      if (rank == 2 || rank == 3) return absl::OkStatus();
      return InvalidArgument(
          "the model's output is {}{}, but must be one score per class, float32 [?,classes] or [?,positions,classes]",
          scores ? rivulet::Name(scores.dtype()) : "nothing", scores ? scores.shape().ToString() : "");
    }
    bool open = rank < 2;  // an axis beside the batch's
    for (int axis = 1; axis < rank; ++axis) open = open || scores.shape().dim(axis) == kUnknownDim;
    if (!open && scores.shape().dim(0) == kUnknownDim) return absl::OkStatus();
    return InvalidArgument("the model's output is {}{}, but must be float32 [?,n], a number for each that is {}",
                           scores ? rivulet::Name(scores.dtype()) : "nothing", scores ? scores.shape().ToString() : "",
                           options_.target == TargetKind::kLabels ? "said yes or no to" : "predicted");
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
    MeanOf(scope, objective_(scope, {logits, flat_label_, classes_}), "loss");
  }

  const ClassifierOptions& options_;
  const ModelBody& body_;
  ModelDef model_;
  Scope scope_;
  SharedLayers shared_;
  Objective objective_ = nullptr;
  Output input_, label_, flat_label_;
  std::string logits_;  // of training
  bool positions_ = false;
  int64_t classes_ = 0;
};

}  // namespace

StatusOr<ModelDef> Classifier(const ClassifierOptions& options, const ModelBody& body) {
  return Builder(options, body).Build();
}

}  // namespace rivulet
