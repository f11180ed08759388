#include <cmath>
#include <set>
#include <utility>

#include "engine/graphdef/graph_def.h"
#include "federated/plan/plan_reader.h"
#include "federated/plan/rates.h"

namespace rivulet {
namespace {

StatusOr<FeatureSpec::Encoding> EncodingFromName(std::string_view feature, std::string_view name) {
  if (name == "uint8") return FeatureSpec::Encoding::kUint8;
  if (name == "float") return FeatureSpec::Encoding::kFloat;
  if (name == "int64") return FeatureSpec::Encoding::kInt64;
  return InvalidArgument("feature '{}' of the plan has the encoding '{}', which is not one of uint8, float and int64",
                         feature, name);
}

}  // namespace

Status PlanReader::ReadModel(const proto::ModelProgram& message) {
  ModelDef& model = *(plan_->model_ = std::make_unique<ModelDef>());
  if (!message.base().empty()) {
    if (plan_->format_ < kBasePlanFormat) {
      return InvalidArgument("the plan has format {} and names a base, which plans of format {} do", plan_->format_,
                             kBasePlanFormat);
    }
    StatusOr<Digest> base = Digest::FromBytes(message.base());
    if (!base.ok()) return Annotate(base.status(), "the digest of the plan's base");
    model.base = *base;
  }
  if (message.graph_def().empty()) return ReadExternalModel(message);
  auto graph = ParseGraph(message.graph_def());
  if (!graph.ok()) return Annotate(graph.status(), "the plan's model graph");
  model.graph = *std::move(graph);
  RIVULET_RETURN_IF_ERROR(ReadVariables(message));

  model.init_target = message.init_target();
  if (model.graph.Find(model.init_target) == nullptr) {
    return InvalidArgument("the plan's model graph has no node '{}' to give its variables their first values",
                           model.init_target);
  }
  model.train_loss = message.train_loss();
  model.eval_loss = message.eval_loss();
  RIVULET_RETURN_IF_ERROR(CheckScalar("training loss", model.train_loss));
  RIVULET_RETURN_IF_ERROR(CheckScalar("evaluation loss", model.eval_loss));
  std::set<std::string> names = {"loss"};  // the name of the loss in evaluations
  for (const proto::NamedTensor& metric : message.metrics()) {
    RIVULET_RETURN_IF_ERROR(CheckName("metric", metric.name()));
    if (!names.insert(metric.name()).second) {
      return InvalidArgument("the plan has two metrics named '{}'", metric.name());
    }
    if (!CountsOf(model.graph, metric.name(), metric.tensor()))
      RIVULET_RETURN_IF_ERROR(CheckScalar(fmt::format("metric '{}'", metric.name()), metric.tensor()));
    model.metrics.emplace_back(metric.name(), metric.tensor());
  }
  for (const std::string& update : message.train_updates()) {
    if (model.graph.Find(update) == nullptr) {
      return InvalidArgument("the plan's model graph has no node '{}' for a training step to run", update);
    }
    model.train_updates.push_back(update);
  }
  return absl::OkStatus();
}

// Reads a layout alone. Fields that need a graph are refused.
Status PlanReader::ReadExternalModel(const proto::ModelProgram& message) {
  if (!message.init_target().empty() || !message.train_loss().empty() || !message.eval_loss().empty() ||
      message.metrics_size() + message.features_size() + message.train_updates_size() > 0) {
    return InvalidArgument("the plan names nodes of a model graph, and has no graph");
  }
  ModelDef& model = *plan_->model_;
  StatusOr<Digest> initial = Digest::FromBytes(message.initial_model());
  if (!initial.ok()) return Annotate(initial.status(), "the plan has no graph; its digest of the model to begin with");
  model.initial_model = *initial;
  for (const proto::VariableLayout& listed : message.variables()) {
    StatusOr<DType> dtype = DTypeFromNumber(listed.dtype());
    if (!dtype.ok()) return Annotate(dtype.status(), fmt::format("the plan's variable '{}'", listed.name()));
    if (listed.segment() == Name(Segment::kLocal)) {
      return InvalidArgument("variable '{}' is of segment local, and without a graph nothing gives it a first value",
                             listed.name());
    }
    const Shape shape(std::vector<int64_t>(listed.shape().begin(), listed.shape().end()));
    model.variables.push_back({listed.name(), {*dtype, shape}, listed.segment()});
  }
  return LayOut();
}

// Checks that the plan's variables equal the graph's. They are listed although the graph has them, because their order
// and segments define the layout of every update: a client that ordered them differently would write its delta in
// another order.
Status PlanReader::ReadVariables(const proto::ModelProgram& message) {
  ModelDef& model = *plan_->model_;
  RIVULET_ASSIGN_OR_RETURN(model.variables, VariablesOf(model.graph));
  if (static_cast<size_t>(message.variables_size()) != model.variables.size()) {
    return InvalidArgument("the plan lists {} variables where its model graph has {}", message.variables_size(),
                           model.variables.size());
  }
  for (int i = 0; i < message.variables_size(); ++i) {
    const proto::VariableLayout& listed = message.variables(i);
    const ModelVariable& variable = model.variables[static_cast<size_t>(i)];
    const std::vector<int64_t> dims(listed.shape().begin(), listed.shape().end());
    if (listed.name() != variable.name || listed.dtype() != static_cast<int32_t>(variable.spec.dtype) ||
        Shape(dims) != variable.spec.shape || listed.segment() != variable.segment) {
      return InvalidArgument(
          "variable {} is listed as {} '{}' {} of type {}, and the plan's model graph has {} '{}' {} of type {}", i,
          listed.segment(), listed.name(), Shape(dims).ToString(), listed.dtype(), variable.segment, variable.name,
          variable.spec.shape.ToString(), static_cast<int32_t>(variable.spec.dtype));
    }
  }
  return LayOut();
}

Status PlanReader::LayOut() {
  std::vector<VariableSpec> specs;
  for (const ModelVariable& variable : plan_->model_->variables) {
    RIVULET_ASSIGN_OR_RETURN(const Segment segment, SegmentFromName(variable.segment));
    specs.push_back({variable.name, variable.spec, segment});
  }
  RIVULET_ASSIGN_OR_RETURN(ModelLayout layout, ModelLayout::Create(specs, plan_->model_->base));
  plan_->layout_ = std::make_shared<const ModelLayout>(std::move(layout));
  return absl::OkStatus();
}

Status PlanReader::CheckScalar(std::string_view what, const std::string& tensor) {
  const auto output = plan_->model_->graph.FindOutput(tensor);
  if (!output.ok()) return Annotate(output.status(), fmt::format("the plan's {}", what));
  if (output->dtype() != DType::kFloat32 || !Shape::Compatible(output->shape(), Shape{})) {
    return InvalidArgument("the plan's {} '{}' is {}{}; it must be a float32 scalar", what, tensor,
                           Name(output->dtype()), output->shape().ToString());
  }
  return absl::OkStatus();
}

Status PlanReader::ReadKernels(std::string_view kernels) {
  plan_->portable_kernels_ = kernels == "portable";
  if (plan_->portable_kernels_ || kernels.empty() || kernels == "native") return absl::OkStatus();
  return InvalidArgument("the plan asks for kernels '{}'; there are 'native' and 'portable'", kernels);
}

Status PlanReader::ReadFeatures(const proto::ModelProgram& message) {
  if (message.features().empty()) return InvalidArgument("the plan feeds its model from no feature");
  std::set<std::string> fed;
  for (const proto::FeatureBinding& binding : message.features()) {
    RIVULET_ASSIGN_OR_RETURN(FeatureSpec feature, ReadFeature(binding));
    if (!fed.insert(feature.placeholder).second) {
      return InvalidArgument("the plan feeds placeholder '{}' twice", feature.placeholder);
    }
    ModelDef& model = *plan_->model_;
    const Node* placeholder = model.graph.Find(feature.placeholder);
    const ModelInput input = {feature.placeholder, placeholder->outputs()[0], feature.encoding,
                              feature.scale,       feature.upper_bound,       feature.feature};
    if (plan_->features_.empty()) {
      model.input = input;
    } else if (plan_->features_.size() == 1) {
      model.label = input;
      model.classes = feature.upper_bound;
    } else {
      model.more_inputs.push_back(input);
    }
    plan_->features_.push_back(std::move(feature));
  }
  return absl::OkStatus();
}

StatusOr<FeatureSpec> PlanReader::ReadFeature(const proto::FeatureBinding& binding) {
  FeatureSpec feature;
  RIVULET_RETURN_IF_ERROR(CheckName("feature", binding.feature()));
  feature.feature = binding.feature();
  feature.placeholder = binding.placeholder();
  RIVULET_ASSIGN_OR_RETURN(feature.encoding, EncodingFromName(feature.feature, binding.encoding()));
  const Node* node = plan_->model_->graph.Find(feature.placeholder);
  if (node == nullptr || node->type() != "Placeholder") {
    return InvalidArgument("the plan feeds feature '{}' to '{}', which is no placeholder of its model graph",
                           feature.feature, feature.placeholder);
  }
  const TensorSpec& fed = node->outputs()[0];
  const DType wanted = feature.encoding == FeatureSpec::Encoding::kInt64 ? DType::kInt64 : DType::kFloat32;
  if (fed.dtype != wanted) {
    return InvalidArgument("the plan feeds feature '{}' as {} to placeholder '{}', which is {}", feature.feature,
                           Name(wanted), feature.placeholder, Name(fed.dtype));
  }
  feature.shape = Shape(std::vector<int64_t>(binding.shape().begin(), binding.shape().end()));
  const auto elements = feature.shape.CheckedElements();
  if (!elements.ok()) return Annotate(elements.status(), fmt::format("feature '{}' of the plan", feature.feature));
  if (*elements == 0) return InvalidArgument("feature '{}' of the plan has no values", feature.feature);
  std::vector<int64_t> batched = {kUnknownDim};
  batched.insert(batched.end(), feature.shape.dims().begin(), feature.shape.dims().end());
  if (!Shape::Compatible(fed.shape, Shape(batched))) {
    return InvalidArgument("the plan feeds examples of shape {} to placeholder '{}' of shape {}",
                           feature.shape.ToString(), feature.placeholder, fed.shape.ToString());
  }
  feature.scale = binding.scale() == 0 ? 1 : binding.scale();
  if (!std::isfinite(feature.scale) || (feature.scale != 1 && wanted == DType::kInt64)) {
    return InvalidArgument("feature '{}' of the plan is scaled by {}", feature.feature, feature.scale);
  }
  feature.upper_bound = binding.upper_bound();
  if (feature.upper_bound < 0 || (feature.upper_bound > 0 && feature.encoding != FeatureSpec::Encoding::kInt64)) {
    return InvalidArgument(
        "feature '{}' of the plan has the upper bound {}; only int64 features have one, of at least 1", feature.feature,
        feature.upper_bound);
  }
  return feature;
}

}  // namespace rivulet
