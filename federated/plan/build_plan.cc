// From a scenario, a model and a composition to the bytes that every client of the run gets.
#include <string>
#include <utility>
#include <vector>

#include "engine/base/file_system.h"
#include "engine/gradients/mixed_precision.h"
#include "engine/graphdef/graph_def.h"
#include "federated/plan/composition.h"
#include "federated/plan/loss_scale.h"
#include "federated/plan/plan.h"
#include "proto/federated/plan.pb.h"

namespace rivulet {
namespace {

// The shape of one example: the placeholder's without its batch.
StatusOr<Shape> ExampleShape(const ModelInput& input) {
  const Shape& shape = input.spec.shape;
  if (!shape.known_rank() || shape.rank() < 1) {
    return InvalidArgument("placeholder '{}' has shape {}; it needs a batch dimension first", input.placeholder,
                           shape.ToString());
  }
  Shape example(std::vector<int64_t>(shape.dims().begin() + 1, shape.dims().end()));
  if (!example.IsFullyKnown()) {
    return InvalidArgument("placeholder '{}' has shape {}; only its batch dimension may be open", input.placeholder,
                           shape.ToString());
  }
  return example;
}

std::string_view NameOf(FeatureEncoding encoding) {
  switch (encoding) {
    case FeatureEncoding::kUint8:
      return "uint8";
    case FeatureEncoding::kFloat:
      return "float";
    case FeatureEncoding::kInt64:
      return "int64";
  }
  return "";
}

// `feature`: the scenario's name for it, empty for the model's own.
Status AddFeature(const std::string& feature, const ModelInput& input, proto::ModelProgram& out) {
  RIVULET_ASSIGN_OR_RETURN(const Shape example, ExampleShape(input));
  const DType fed = input.encoding == FeatureEncoding::kInt64 ? DType::kInt64 : DType::kFloat32;
  if (input.spec.dtype != fed) {
    return InvalidArgument("placeholder '{}' is {}; {} features are fed as {}", input.placeholder,
                           Name(input.spec.dtype), NameOf(input.encoding), Name(fed));
  }
  proto::FeatureBinding* binding = out.add_features();
  binding->set_feature(!feature.empty() ? feature : !input.feature.empty() ? input.feature : input.placeholder);
  binding->set_placeholder(input.placeholder);
  binding->set_encoding(std::string(NameOf(input.encoding)));
  for (const int64_t dim : example.dims()) binding->add_shape(dim);
  // What is left out is its default, as ever: a plan's bytes do not change with what it does not use.
  if (input.scale != 1) binding->set_scale(input.scale);
  binding->set_upper_bound(input.upper_bound);
  return absl::OkStatus();
}

Status AddFeatures(const DataConfig& data, const ModelDef& model, proto::ModelProgram& out) {
  if (model.label.encoding != FeatureEncoding::kInt64) {
    return InvalidArgument("placeholder '{}' takes {} features; labels are int64", model.label.placeholder,
                           NameOf(model.label.encoding));
  }
  RIVULET_RETURN_IF_ERROR(AddFeature(data.image_feature, model.input, out));
  return AddFeature(data.label_feature, model.label, out);
}

// The model's graph as clients run it.
// Precision is decided here and written into the graph, so that a client need not know that there are several.
StatusOr<std::string> GraphDefAt(const std::string& precision, const Graph& graph) {
  if (precision == "float32") return SerializeGraph(graph);
  RIVULET_ASSIGN_OR_RETURN(const DType compute, DTypeFromName(precision));
  RIVULET_ASSIGN_OR_RETURN(const Graph mixed, ToMixedPrecision(graph, compute));
  return SerializeGraph(mixed);
}

}  // namespace

StatusOr<ModelLayout> ModelLayoutOf(const ModelDef& model) {
  std::vector<VariableSpec> variables;
  for (const ModelVariable& variable : model.variables) {
    RIVULET_ASSIGN_OR_RETURN(const Segment segment, SegmentFromName(variable.segment));
    variables.push_back({variable.name, variable.spec, segment});
  }
  return ModelLayout::Create(variables);
}

// Everything that decides a client's bits is in these bytes, and their digest names them: two clients with one plan
// compute the same, and a change of any setting is another plan.
StatusOr<std::shared_ptr<const Plan>> Plan::Build(const Scenario& scenario, const ModelDef& model,
                                                  Composition composition) {
  proto::Plan plan;
  plan.set_format(kPlanFormat);
  plan.set_name(scenario.run.name);

  proto::ModelProgram& program = *plan.mutable_model();
  RIVULET_ASSIGN_OR_RETURN(const std::string graph_def, GraphDefAt(scenario.client.precision, model.graph));
  program.set_graph_def(graph_def);
  program.set_init_target(model.init_target);
  program.set_train_loss(model.train_loss);
  program.set_eval_loss(model.eval_loss);
  for (const auto& [name, tensor] : model.metrics) {
    proto::NamedTensor* metric = program.add_metrics();
    metric->set_name(name);
    metric->set_tensor(tensor);
  }
  for (const std::string& update : model.train_updates) program.add_train_updates(update);
  RIVULET_RETURN_IF_ERROR(AddFeatures(scenario.data, model, program));
  for (const ModelVariable& variable : model.variables) {
    proto::VariableLayout* entry = program.add_variables();
    entry->set_name(variable.name);
    entry->set_dtype(static_cast<int32_t>(variable.spec.dtype));
    for (const int64_t dim : variable.spec.shape.dims()) entry->add_shape(dim);
    entry->set_segment(variable.segment);
  }

  LocalRule& rule = composition.local;
  proto::LocalAlgorithm& algorithm = *plan.mutable_algorithm();
  if (scenario.client.loss_scale.kind != "none") {
    RIVULET_ASSIGN_OR_RETURN(*algorithm.mutable_loss_scale(), AddLossScale(scenario.client.loss_scale, rule));
  }
  algorithm.set_init_graph(SerializeGraph(rule.init));
  algorithm.set_step_graph(SerializeGraph(rule.step));
  algorithm.set_final_graph(SerializeGraph(rule.final));
  algorithm.set_slots(rule.slots);
  algorithm.set_scalars(rule.scalars);

  proto::LocalTraining& training = *plan.mutable_training();
  training.set_epochs(scenario.client.epochs);
  training.set_batch_size(scenario.client.batch_size);
  training.set_shuffle(scenario.client.shuffle);
  training.set_dataset("train");
  training.set_kernels(scenario.run.kernels);
  if (!scenario.client.input_graph.empty()) {
    auto graph = FileSystem::Default().ReadAll(scenario.client.input_graph);
    if (!graph.ok()) return Annotate(graph.status(), "client.input_graph");
    training.set_input_graph(*std::move(graph));
  }

  const AggregationSpec& spec = composition.aggregation;
  proto::UpdateRule& update = *plan.mutable_update();
  update.set_aggregation(spec.rule);
  update.set_value_bits(spec.value_bits);
  update.set_fraction_bits(spec.fraction_bits());
  update.set_max_weight(spec.max_weight);
  update.set_updates_per_version(spec.updates_per_version);
  update.set_weight_by("examples");

  // What every client will ask of these bytes is asked here first.
  return Open(plan.SerializeAsString());
}

}  // namespace rivulet
