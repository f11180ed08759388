#include "engine/models/classifier.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>

#include "engine/models/metrics/metric.h"
#include "engine/variables/variables.h"

namespace rivulet {
namespace {

constexpr std::string_view kNodes[] = {"label",    "logits",   "loss",          "init",  "prediction",  "correct",
                                       "accuracy", "one_hot",  "model",         "mse",   "training",    "cross_entropy",
                                       "mae",      "decision", "squared_error", "exact", "exact_match", "labels"};

// The inputs of `options`; an input without a name is named after its kind.
std::vector<InputSpec> InputsOf(const ClassifierOptions& options) {
  if (!options.inputs.empty()) return options.inputs;
  const bool tokens = options.encoding == FeatureEncoding::kInt64;
  InputSpec input{tokens ? "tokens" : "image", options.input, options.encoding, tokens ? options.vocabulary : 0};
  return {input};
}

class Builder {
 public:
  Builder(const ClassifierOptions& options, const JoiningBody& body)
      : options_(options), body_(body), scope_(model_.graph) {}

  StatusOr<ModelDef> Build() {
    RIVULET_ASSIGN_OR_RETURN(objective_, FindObjective(options_.target, options_.loss, options_.loss_settings));
    ignored_ = IgnoredLabel(options_.loss_settings);
    for (const InputSpec& input : InputsOf(options_)) RIVULET_RETURN_IF_ERROR(AddInput(input));
    RIVULET_RETURN_IF_ERROR(Evaluation());
    model_.eval_loss = model_.train_loss = "loss";
    if (shared_.differs) RIVULET_RETURN_IF_ERROR(Training());

    model_.init_target = kInitTarget;
    const bool integers = options_.target != TargetKind::kNumbers;
    model_.label = {"label", label_.node->outputs()[0], integers ? FeatureEncoding::kInt64 : FeatureEncoding::kFloat};
    if (integers) model_.label.upper_bound = options_.target == TargetKind::kClass ? classes_ : 2;
    if (ignored_) model_.label.upper_bound = 0;  // a label below 0 is fed too
    model_.classes = classes_;
    if (shared_.dense_input) model_.outputs.emplace_back("representation", shared_.dense_input.name());
    model_.outputs.emplace_back(integers ? "logits" : "prediction", logits_);
    model_.train_updates = shared_.updates;
    RIVULET_ASSIGN_OR_RETURN(model_.variables, VariablesOf(model_.graph));
    if (model_.variables.empty()) return InvalidArgument("the model has no variables, so there is nothing to train");
    return std::move(model_);
  }

 private:
  Status AddInput(const InputSpec& input) {
    const std::string what = options_.inputs.empty() ? "the model's input" : fmt::format("the input '{}'", input.name);
    if (IsClassifierNode(input.name) || !names_.insert(input.name).second)
      return InvalidArgument("{}: the name is taken; call it otherwise", what);
    RIVULET_RETURN_IF_ERROR(Annotate(Shape(input.shape).CheckedElements().status(), what));
    std::vector<int64_t> dims = {kUnknownDim};
    dims.insert(dims.end(), input.shape.begin(), input.shape.end());
    const bool tokens = input.encoding == FeatureEncoding::kInt64;
    const Output fed = scope_.Placeholder(input.name, tokens ? DType::kInt64 : DType::kFloat32, Shape(dims));
    RIVULET_RETURN_IF_ERROR(scope_.status());
    fed_.push_back(fed);
    ModelInput& described = fed_.size() == 1 ? model_.input : model_.more_inputs.emplace_back();
    described = {input.name, {fed.dtype(), fed.shape()}, input.encoding, 1, tokens ? input.vocabulary : 0};
    described.feature = input.feature;
    if (input.encoding == FeatureEncoding::kUint8) described.scale = 1.0 / 255.0;
    return absl::OkStatus();
  }

  Status Evaluation() {
    Layers layers(scope_, false, shared_);
    const Output scores = body_(layers, fed_);
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
    if (ignored_) Ignore();
    const std::string_view name = options_.target == TargetKind::kNumbers ? "prediction" : "logits";
    const Output logits = Rows(scope_, scope_.Op("Identity", {scores}, {}, name), {-1, classes_});
    logits_ = logits.name();
    Loss(scope_, logits);
    RIVULET_RETURN_IF_ERROR(scope_.status());
    RIVULET_ASSIGN_OR_RETURN(
        model_.metrics, AddMetrics(scope_, options_.target,
                                   {logits, flat_label_, classes_, counted_, PositionsOf(scores)}, options_.metrics));
    return scope_.status();
  }

  int64_t PositionsOf(const Output& scores) const { return positions_ ? scores.shape().dim(1) : 1; }

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
    const Output scores = body_(layers, fed_);
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
    const Output losses = objective_(scope, {logits, flat_label_, classes_, counted_});
    counted_ ? MeanOfCounted(scope, losses, counted_, "loss") : MeanOf(scope, losses, "loss");
  }

  // Rows of the ignored label get class 0, as the loss's op refuses labels beyond the classes, and the weight 0.
  void Ignore() {
    const Scope s = scope_.SubScope("ignored");
    const Output counts = s.Op("NotEqual", {flat_label_, s.Const(Tensor::Scalar(*ignored_), "label")});
    counted_ = s.Op("Cast", {counts}, {{"DstT", DType::kFloat32}}, "counted");
    flat_label_ = s.Op("SelectV2", {counts, flat_label_, s.Const(Tensor::Scalar<int64_t>(0), "none")}, {}, "class");
  }

  const ClassifierOptions& options_;
  const JoiningBody& body_;
  ModelDef model_;
  Scope scope_;
  SharedLayers shared_;
  Objective objective_;
  std::set<std::string> names_;
  std::vector<Output> fed_;
  Output label_, flat_label_, counted_;
  std::optional<int64_t> ignored_;
  std::string logits_;  // of training
  bool positions_ = false;
  int64_t classes_ = 0;
};

}  // namespace

StatusOr<ModelDef> Classifier(const ClassifierOptions& options, const JoiningBody& body) {
  return Builder(options, body).Build();
}

StatusOr<ModelDef> Classifier(const ClassifierOptions& options, const ModelBody& body) {
  if (options.inputs.size() > 1)
    return InvalidArgument("the model takes one input, and {} are given", options.inputs.size());
  return Classifier(options, JoiningBody([&body](Layers& layers, std::span<const Output> inputs) {
                      return body(layers, inputs[0]);
                    }));
}

bool IsClassifierNode(std::string_view name) { return std::ranges::find(kNodes, name) != std::end(kNodes); }

}  // namespace rivulet
