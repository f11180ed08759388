// Conversion of a scenario, a model and a composition to the plan's bytes, equal for every client of the run.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/file_system.h"
#include "engine/gradients/mixed_precision.h"
#include "engine/graphdef/graph_def.h"
#include "federated/plan/compose_step.h"
#include "federated/plan/composition.h"
#include "federated/plan/loss_scale.h"
#include "federated/plan/plan.h"
#include "proto/federated/plan.pb.h"

namespace rivulet {
namespace {

// The shape of one example: the placeholder's shape without the batch dimension.
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

// `feature`: the name in the scenario; empty for the model's own name.
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
  // Defaults are omitted, so that a plan's bytes do not change with features that it does not use.
  if (input.scale != 1) binding->set_scale(input.scale);
  binding->set_upper_bound(input.upper_bound);
  return absl::OkStatus();
}

Status AddFeatures(const DataConfig& data, const ModelDef& model, proto::ModelProgram& out) {
  if (model.label.encoding == FeatureEncoding::kUint8) {
    return InvalidArgument("placeholder '{}' takes {} features; labels are integers or floats", model.label.placeholder,
                           NameOf(model.label.encoding));
  }
  RIVULET_RETURN_IF_ERROR(AddFeature(data.input_feature, model.input, out));
  RIVULET_RETURN_IF_ERROR(AddFeature(data.label_feature, model.label, out));
  for (const ModelInput& input : model.more_inputs) RIVULET_RETURN_IF_ERROR(AddFeature("", input, out));
  return absl::OkStatus();
}

// The model's graph as clients run it, or nullopt if that is `graph` itself. Precision is
// decided here and written into the graph, so that clients need no knowledge of
// precisions.
StatusOr<std::optional<Graph>> MixedGraph(const std::string& precision, const Graph& graph) {
  if (precision == "float32") return std::nullopt;
  RIVULET_ASSIGN_OR_RETURN(const DType compute, DTypeFromName(precision));
  RIVULET_ASSIGN_OR_RETURN(Graph mixed, ToMixedPrecision(graph, compute));
  return std::optional(std::move(mixed));
}

// A graph's bytes; empty for a graph that only has its run node.
std::string BytesOf(const Graph& graph) { return graph.nodes().size() > 1 ? SerializeGraph(graph) : ""; }

// Adds a fully defined pass that only measures. It changes nothing, so it has no graphs over flat variables.
void AddMeasuringPass(const LocalPass& pass, const std::string& dataset, proto::PassDef& message) {
  for (const ModelInstance& instance : pass.models) {
    proto::ModelInstanceDef& entry = *message.add_models();
    entry.set_prefix(instance.prefix);
    entry.set_buffer(instance.buffer);
  }
  if (pass.loss != nullptr) message.set_loss(SerializeGraph(*pass.loss));
  for (const auto& [name, tensor] : pass.loss_inputs) {
    proto::NamedTensor& input = *message.add_loss_inputs();
    input.set_name(name);
    input.set_tensor(tensor);
  }
  for (const PassScalar& scalar : pass.scalars) {
    proto::PassScalarDef& entry = *message.add_scalars();
    entry.set_name(scalar.name);
    entry.set_tensor(scalar.tensor);
    entry.set_sum(scalar.sum);
  }
  message.set_training(pass.training);
  message.set_dataset(dataset);
  message.set_batch_size(pass.batch_size);
  message.set_shuffle(pass.shuffle);
  message.set_epochs(pass.epochs);
}

Status AddEnd(const PassBuilder& builder, const ModelLayout& layout, proto::PassDef& pass) {
  if (builder.at_end == nullptr) return absl::OkStatus();
  FlatScope f(layout);
  builder.at_end(f);
  RIVULET_ASSIGN_OR_RETURN(const Graph end, std::move(f).Finish());
  pass.set_end(BytesOf(end));
  return absl::OkStatus();
}

// Adds the pass of a model with `graph` as clients run it. scenario.client completes `builder`. Slots and scalars of
// each pass start at index 0, so a plan has as many as its largest pass.
Status AddPass(const PassBuilder& builder, const Scenario& scenario, const ModelDef& model, const Graph& graph,
               const ModelLayout& layout, proto::FlatNamesDef& flats, proto::PassDef& pass) {
  const ClientConfig& client = scenario.client;
  if (builder.trains.empty()) {
    LocalPass look;
    look.models = builder.models;
    look.training = false;
    look.shuffle = false;
    look.batch_size = builder.batch_size > 0 ? builder.batch_size : client.batch_size;
    look.scalars.push_back({builder.reports, model.eval_loss});
    for (size_t i = 0; i < builder.reports_too.size(); ++i) {
      look.scalars.push_back(
          {builder.reports_too[i], fmt::format("{}/{}", builder.models.at(i + 1).prefix, model.eval_loss)});
    }
    AddMeasuringPass(look, scenario.data.name, pass);
    return AddEnd(builder, layout, pass);
  }
  RIVULET_ASSIGN_OR_RETURN(LocalRule rule,
                           MakeLocalRule(client, layout, builder.gradient, builder.trains, builder.own));
  RIVULET_ASSIGN_OR_RETURN(*pass.mutable_loss_scale(), AddLossScale(client.loss_scale, rule));
  flats.set_slots(std::max(flats.slots(), rule.slots));
  flats.set_scalars(std::max(flats.scalars(), rule.scalars));
  for (const ModelInstance& instance : builder.models) {
    proto::ModelInstanceDef& entry = *pass.add_models();
    entry.set_prefix(instance.prefix);
    entry.set_buffer(instance.buffer);
  }
  if (builder.loss != nullptr) {
    LossScope f(model, graph);
    const Output loss = builder.loss(f);
    const StatusOr<Graph> objective = std::move(f).Finish(loss);
    if (!objective.ok()) {
      return Annotate(objective.status(), fmt::format("[algorithm] name = \"{}\"", scenario.algorithm.name));
    }
    pass.set_loss(SerializeGraph(*objective));
    for (const auto& [placeholder, tensor] : f.inputs()) {
      proto::NamedTensor& input = *pass.add_loss_inputs();
      input.set_name(placeholder);
      input.set_tensor(tensor);
    }
  }
  pass.set_gradient_by(builder.trains);
  pass.set_other_gradient_by(builder.also_by);
  pass.set_training(true);
  // A reported loss depends on examples and has no noise.
  if (scenario.privacy.unit != "example" && !builder.reports.empty()) {
    proto::PassScalarDef& loss = *pass.add_scalars();
    loss.set_name(builder.reports);
    loss.set_tensor(model.train_loss);
  }
  pass.set_dataset(scenario.data.name);
  pass.set_batch_size(builder.batch_size > 0 ? builder.batch_size : client.batch_size);
  pass.set_shuffle(client.shuffle);
  pass.set_epochs(builder.epochs > 0 ? builder.epochs : client.epochs);
  if (builder.epochs == 0) pass.set_partial_work(client.partial_work);
  if (!client.input_graph.empty()) {
    auto graph = FileSystem::Default().ReadAll(client.input_graph);
    if (!graph.ok()) return Annotate(graph.status(), "client.input_graph");
    // In a plan, empty bytes mean the default input, and input keys besides would be refused.
    if (graph->empty())
      return InvalidArgument("client.input_graph: '{}' is empty; give a GraphDef with the node 'batches'",
                             client.input_graph);
    pass.set_input(*std::move(graph));
  }
  pass.set_begin(BytesOf(rule.begin));
  pass.set_step(BytesOf(rule.step));
  return AddEnd(builder, layout, pass);
}

// Adds the pass of clients with external training: data set, amount of work and reports.
void AddExternalPass(const Scenario& scenario, proto::PassDef& pass) {
  const ClientConfig& client = scenario.client;
  pass.add_scalars()->set_name("train_loss");
  pass.set_dataset(scenario.data.name);
  pass.set_batch_size(client.batch_size);
  pass.set_epochs(client.epochs);
}

}  // namespace

StatusOr<ModelLayout> ModelLayoutOf(const ModelDef& model) {
  std::vector<VariableSpec> variables;
  for (const ModelVariable& variable : model.variables) {
    RIVULET_ASSIGN_OR_RETURN(const Segment segment, SegmentFromName(variable.segment));
    variables.push_back({variable.name, variable.spec, segment});
  }
  return ModelLayout::Create(variables, model.base);
}

void AddSecureSum(const SecureSum& secure, proto::SecureSumDef& message) {
  message.set_protocol(secure.protocol);
  message.set_min_cohort(secure.min_cohort);
  message.set_min_survivors(secure.min_survivors);
  message.set_max_colluding(secure.max_colluding);
  message.set_drop_out(secure.drop_out);
  message.set_least_sum(secure.least_sum);
}

// Whether the plan has features that a reader of only the first format would ignore, and so train differently.
bool NeedsBroadFormat(const proto::Plan& plan) {
  const auto second_gradient = [](const proto::LocalProgramDef& program) {
    return std::ranges::any_of(program.passes(),
                               [](const proto::PassDef& pass) { return !pass.other_gradient_by().empty(); });
  };
  const proto::FlatNamesDef& flats = plan.flats();
  return !plan.model().download().empty() || plan.aggregation().has_secure() ||
         flats.numbers_size() + flats.measured_size() + flats.declared_size() > 0 ||
         std::ranges::any_of(plan.aggregation().parts(), &proto::PartDef::has_only_where) ||
         std::ranges::any_of(plan.programs(), second_gradient);
}

// Everything that affects a client's results is in these bytes, and their digest identifies them: clients with one plan
// compute the same, and a change of any setting gives another plan.
StatusOr<std::shared_ptr<const Plan>> Plan::Build(const Scenario& scenario, const ModelDef& model,
                                                  const Composition& composition) {
  proto::Plan plan;
  plan.set_format(kPlanFormat);
  plan.set_name(scenario.run.name);

  proto::ModelProgram& program = *plan.mutable_model();
  RIVULET_ASSIGN_OR_RETURN(const std::optional<Graph> mixed, MixedGraph(scenario.client.precision, model.graph));
  const Graph& graph = mixed ? *mixed : model.graph;
  if (model.has_graph()) {
    program.set_graph_def(SerializeGraph(graph));
    if (scenario.server.download != "f32") program.set_download(scenario.server.download);
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
  } else {
    program.set_initial_model(std::string(model.initial_model.AsBytes()));
  }
  if (model.base) program.set_base(std::string(model.base->AsBytes()));
  for (const ModelVariable& variable : model.variables) {
    proto::VariableLayout* entry = program.add_variables();
    entry->set_name(variable.name);
    entry->set_dtype(static_cast<int32_t>(variable.spec.dtype));
    for (const int64_t dim : variable.spec.shape.dims()) entry->add_shape(dim);
    entry->set_segment(variable.segment);
  }

  plan.set_kernels(scenario.run.kernels);
  RIVULET_ASSIGN_OR_RETURN(const ModelLayout layout, ModelLayoutOf(model));
  proto::LocalProgramDef& training = *plan.add_programs();
  training.set_kind(static_cast<int32_t>(TaskKind::kTrain));
  for (const StateVector& state : composition.state) {
    plan.mutable_flats()->add_state(state.name);
    if (state.from_base) plan.mutable_flats()->add_state_from_base(state.name);
  }
  for (const std::string& name : composition.broadcast) plan.mutable_flats()->add_broadcast(name);
  for (const std::string& name : composition.numbers) plan.mutable_flats()->add_numbers(name);
  for (const std::string& name : composition.measured) plan.mutable_flats()->add_measured(name);
  for (const std::string& name : composition.declared) plan.mutable_flats()->add_declared(name);
  if (!model.has_graph()) AddExternalPass(scenario, *training.add_passes());
  for (const PassBuilder& pass : composition.passes) {
    if (!model.has_graph()) break;
    RIVULET_RETURN_IF_ERROR(
        AddPass(pass, scenario, model, graph, layout, *plan.mutable_flats(), *training.add_passes()));
  }
  for (const auto& [name, source] : composition.parts) {
    proto::PartSourceDef* part = training.add_parts();
    part->set_part(name);
    part->set_from(source.from);
    part->set_less(source.less);
    part->set_shared_too(source.shared_too);
    if (source.from.starts_with(kUpdatePrefix)) {
      plan.mutable_flats()->add_update(source.from.substr(kUpdatePrefix.size()));
    }
  }
  if (!composition.evaluation.empty()) {
    proto::LocalProgramDef& evaluation = *plan.add_programs();
    evaluation.set_kind(static_cast<int32_t>(TaskKind::kEvaluate));
    for (const LocalPass& pass : composition.evaluation) {
      const bool last = &pass == &composition.evaluation.back();
      for (size_t i = 0; last && i < composition.adaptation.size(); ++i) {
        RIVULET_RETURN_IF_ERROR(AddPass(composition.adaptation[i], scenario, model, graph, layout,
                                        *plan.mutable_flats(), *evaluation.add_passes()));
      }
      AddMeasuringPass(pass, scenario.data.name, *evaluation.add_passes());
    }
  }

  for (const PieceSpec& piece : composition.mechanisms) {
    proto::MechanismDef& mechanism = *training.add_mechanisms();
    mechanism.set_name(piece.name);
    for (const auto& [name, value] : piece.settings) {
      proto::SettingDef& setting = *mechanism.add_settings();
      setting.set_name(name);
      if (const auto* text = std::get_if<std::string>(&value)) {
        setting.set_text(*text);
      } else {
        setting.set_number(std::get<double>(value));
      }
    }
  }

  const AggregationSpec& spec = composition.aggregation;
  proto::AggregationDef& aggregation = *plan.mutable_aggregation();
  aggregation.set_rule(spec.rule);
  for (const auto& [name, value] : spec.rule_settings) {
    proto::SettingDef& setting = *aggregation.add_rule_settings();
    setting.set_name(name);
    setting.set_number(value);
  }
  aggregation.set_max_weight(spec.max_weight);
  aggregation.set_updates_per_version(spec.updates_per_version);
  aggregation.set_weight_fraction_bits(spec.weight_fraction_bits);
  aggregation.set_staleness_bits(spec.staleness_bits);
  if (spec.secure.on()) AddSecureSum(spec.secure, *aggregation.mutable_secure());
  for (const PartSpec& part : spec.parts) {
    proto::PartDef& entry = *aggregation.add_parts();
    entry.set_name(part.name);
    entry.set_codec(part.codec);
    for (const auto& [name, value] : part.codec_settings) {
      proto::SettingDef& setting = *entry.add_codec_settings();
      setting.set_name(name);
      setting.set_number(value);
    }
    entry.set_error_feedback(part.error_feedback);
    entry.set_elements(part.elements);
    entry.set_value_bits(part.value_bits);
    if (part.sum_bits != 64) entry.set_sum_bits(part.sum_bits);
    entry.set_fraction_bits(spec.fraction_bits(part));
    entry.set_weigh(part.weigh);
    entry.set_optional(part.optional);
    if (part.only_where) {
      entry.mutable_only_where()->set_scalar(part.only_where->scalar);
      entry.mutable_only_where()->set_value(part.only_where->value);
    }
    if (part.denominator.kind == Denominator::Kind::kWeights) continue;
    proto::DenominatorDef& denominator = *entry.mutable_denominator();
    denominator.set_kind(static_cast<int32_t>(part.denominator.kind));
    denominator.set_constant(part.denominator.constant);
    denominator.set_scalar(part.denominator.scalar);
  }
  for (const ScalarSpec& scalar : spec.scalars) {
    proto::ScalarDef& entry = *aggregation.add_scalars();
    entry.set_name(scalar.name);
    entry.set_weigh(scalar.weigh);
  }

  if (composition.noise.any() && !composition.noise.seeded) {
    proto::PrivacyDef& claim = *plan.mutable_privacy();
    claim.set_noise_multiplier(composition.noise.claimed);
    claim.set_sampling_rate(composition.noise.sampling_rate);
    claim.set_cohort(scenario.server.clients_per_round);
    claim.set_replace_one(composition.noise.sampling_rate == 1);
  }

  // Makes every check here that clients will make.
  if (NeedsBroadFormat(plan)) plan.set_format(kBroadPlanFormat);
  if (model.base) plan.set_format(kBasePlanFormat);
  RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<const Plan> opened, Open(plan.SerializeAsString()));
  RIVULET_RETURN_IF_ERROR(CheckSteps(*opened));
  return opened;
}

}  // namespace rivulet
