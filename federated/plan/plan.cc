#include "federated/plan/plan.h"

#include <cmath>
#include <set>
#include <utility>

#include "engine/graph/variable_name.h"
#include "engine/graphdef/graph_def.h"
#include "federated/plan/local_rules.h"
#include "federated/plan/plan_input.h"
#include "proto/federated/plan.pb.h"

namespace rivulet {
namespace {

constexpr int64_t kMaxEpochs = 1'000'000, kMaxBatch = int64_t{1} << 20, kMaxSteps = int64_t{1} << 32;
constexpr int kMaxSlots = 16, kMaxScalars = 64;

// Names from outside end up in messages, rows and files.
Status CheckName(std::string_view what, std::string_view name) {
  if (name.empty()) return InvalidArgument("the plan gives no {}", what);
  if (name.size() > 1024) return InvalidArgument("the plan's {} has {} bytes, more than 1024", what, name.size());
  for (const char c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      return InvalidArgument("the plan's {} has control characters", what);
    }
  }
  return absl::OkStatus();
}

StatusOr<FeatureSpec::Encoding> EncodingFromName(std::string_view feature, std::string_view name) {
  if (name == "uint8") return FeatureSpec::Encoding::kUint8;
  if (name == "float") return FeatureSpec::Encoding::kFloat;
  if (name == "int64") return FeatureSpec::Encoding::kInt64;
  return InvalidArgument("feature '{}' of the plan has the encoding '{}', which is none of uint8, float and int64",
                         feature, name);
}

}  // namespace

// Turns a message into a Plan, one part after another, each checked against those before it.
// A plan is trusted with nothing. What can be wrong is found here, with the plan's words, so that a Plan that exists
// can be compiled and run; a client never finds half way through training that a variable is missing.
class PlanReader {
 public:
  static StatusOr<std::shared_ptr<const Plan>> Read(std::string bytes) {
    proto::Plan message;
    if (!message.ParseFromString(bytes)) return DataLoss("these {} bytes are no plan", bytes.size());
    if (message.format() != kPlanFormat) {
      return InvalidArgument("the plan has format {}, and this program reads format {}", message.format(), kPlanFormat);
    }
    PlanReader reader;
    Plan& plan = *reader.plan_;
    plan.digest_ = Sha256Of(bytes);
    plan.bytes_ = std::move(bytes);
    RIVULET_RETURN_IF_ERROR(CheckName("name", message.name()));
    plan.name_ = message.name();
    RIVULET_RETURN_IF_ERROR(reader.ReadModel(message.model()));
    RIVULET_RETURN_IF_ERROR(reader.ReadFeatures(message.model()));
    RIVULET_RETURN_IF_ERROR(reader.ReadAlgorithm(message.algorithm()));
    RIVULET_RETURN_IF_ERROR(reader.ReadTraining(message.training()));
    RIVULET_RETURN_IF_ERROR(reader.ReadUpdate(message.update()));
    return std::shared_ptr<const Plan>(std::move(reader.plan_));
  }

 private:
  Status ReadModel(const proto::ModelProgram& message) {
    auto graph = ParseGraph(message.graph_def());
    if (!graph.ok()) return Annotate(graph.status(), "the plan's model graph");
    ModelDef& model = *(plan_->model_ = std::make_unique<ModelDef>());
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
    std::set<std::string> names = {"loss"};  // what evaluation calls the loss
    for (const proto::NamedTensor& metric : message.metrics()) {
      RIVULET_RETURN_IF_ERROR(CheckName("metric", metric.name()));
      if (!names.insert(metric.name()).second) {
        return InvalidArgument("the plan has two metrics named '{}'", metric.name());
      }
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

  // The variables that the plan lists are those of the graph, one by one.
  // They are listed although the graph has them, because their order and segments are the layout of every update, and a
  // client that read the graph another way would write its delta in another order.
  Status ReadVariables(const proto::ModelProgram& message) {
    ModelDef& model = *plan_->model_;
    RIVULET_ASSIGN_OR_RETURN(model.variables, VariablesOf(model.graph));
    if (static_cast<size_t>(message.variables_size()) != model.variables.size()) {
      return InvalidArgument("the plan lists {} variables where its model graph has {}", message.variables_size(),
                             model.variables.size());
    }
    std::vector<VariableSpec> specs;
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
      RIVULET_ASSIGN_OR_RETURN(const Segment segment, SegmentFromName(variable.segment));
      specs.push_back({variable.name, variable.spec, segment});
    }
    RIVULET_ASSIGN_OR_RETURN(ModelLayout layout, ModelLayout::Create(specs));
    plan_->layout_ = std::make_shared<const ModelLayout>(std::move(layout));
    return absl::OkStatus();
  }

  Status CheckScalar(std::string_view what, const std::string& tensor) {
    const auto output = plan_->model_->graph.FindOutput(tensor);
    if (!output.ok()) return Annotate(output.status(), fmt::format("the plan's {}", what));
    if (output->dtype() != DType::kFloat32 || !Shape::Compatible(output->shape(), Shape{})) {
      return InvalidArgument("the plan's {} '{}' is {}{}; it must be a float32 scalar", what, tensor,
                             Name(output->dtype()), output->shape().ToString());
    }
    return absl::OkStatus();
  }

  Status ReadFeatures(const proto::ModelProgram& message) {
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
      }
      plan_->features_.push_back(std::move(feature));
    }
    return absl::OkStatus();
  }

  StatusOr<FeatureSpec> ReadFeature(const proto::FeatureBinding& binding) {
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
          "feature '{}' of the plan has the upper bound {}; only int64 features have one, of at least 1",
          feature.feature, feature.upper_bound);
    }
    return feature;
  }

  Status ReadAlgorithm(const proto::LocalAlgorithm& message) {
    plan_->slots_ = message.slots();
    if (message.slots() < 0 || message.slots() > kMaxSlots) {
      return InvalidArgument("the plan asks for {} slots; a client has 0 to {}", message.slots(), kMaxSlots);
    }
    plan_->scalars_ = message.scalars();
    if (message.scalars() < 0 || message.scalars() > kMaxScalars) {
      return InvalidArgument("the plan asks for {} scalars; a client has 0 to {}", message.scalars(), kMaxScalars);
    }
    plan_->loss_scale_ = message.loss_scale();
    if (!plan_->loss_scale_.empty()) {
      const auto flat = FlatSpec(plan_->loss_scale_, *plan_->layout_, plan_->slots_, plan_->scalars_);
      if (!flat.ok()) return Annotate(flat.status(), "the plan's loss scale");
      if (flat->shape != Shape{}) return InvalidArgument("the plan's loss scale '{}' is no scalar", plan_->loss_scale_);
    }
    RIVULET_RETURN_IF_ERROR(ReadFlatGraph("init", message.init_graph(), plan_->init_graph_));
    RIVULET_RETURN_IF_ERROR(ReadFlatGraph("step", message.step_graph(), plan_->step_graph_));
    return ReadFlatGraph("final", message.final_graph(), plan_->final_graph_);
  }

  // A graph over flat variables alone, with the target `run`.
  Status ReadFlatGraph(std::string_view what, const std::string& graph_def, std::unique_ptr<Graph>& out) {
    auto graph = ParseGraph(graph_def);
    if (!graph.ok()) return Annotate(graph.status(), fmt::format("the plan's {} graph", what));
    if (graph->Find(kRunTarget) == nullptr)
      return InvalidArgument("the plan's {} graph has no node '{}'", what, kRunTarget);
    for (const auto& node : graph->nodes()) {
      if (node->type() == "Placeholder") {
        return InvalidArgument("the plan's {} graph has a placeholder '{}', which nothing would feed", what,
                               node->name());
      }
      if (node->type() != "VarHandleOp") continue;
      const std::string_view name = VariableName(*node);
      const auto flat = FlatSpec(name, *plan_->layout_, plan_->slots_, plan_->scalars_);
      if (!flat.ok()) return Annotate(flat.status(), fmt::format("the plan's {} graph", what));
      const Shape& shape = node->attr<Shape>("shape");
      if (VariableDType(*node) != flat->dtype || !Shape::Compatible(shape, flat->shape)) {
        return InvalidArgument("the plan's {} graph takes '{}' for {}{}, and it is {}{}", what, name,
                               Name(VariableDType(*node)), shape.ToString(), Name(flat->dtype), flat->shape.ToString());
      }
    }
    out = std::make_unique<Graph>(*std::move(graph));
    return absl::OkStatus();
  }

  Status ReadTraining(const proto::LocalTraining& message) {
    const auto in_range = [](std::string_view what, int64_t value, int64_t low, int64_t high) -> Status {
      if (value >= low && value <= high) return absl::OkStatus();
      return InvalidArgument("the plan asks for {} {}; {} to {} can be done", value, what, low, high);
    };
    RIVULET_RETURN_IF_ERROR(in_range("epochs", message.epochs(), 1, kMaxEpochs));
    RIVULET_RETURN_IF_ERROR(in_range("examples in a batch", message.batch_size(), 1, kMaxBatch));
    RIVULET_RETURN_IF_ERROR(in_range("steps", message.max_steps(), 0, kMaxSteps));
    RIVULET_RETURN_IF_ERROR(CheckName("data set", message.dataset()));
    plan_->epochs_ = message.epochs();
    plan_->batch_size_ = message.batch_size();
    plan_->shuffle_ = message.shuffle();
    plan_->max_steps_ = message.max_steps();
    plan_->dataset_ = message.dataset();
    plan_->portable_kernels_ = message.kernels() == "portable";
    if (!plan_->portable_kernels_ && !message.kernels().empty() && message.kernels() != "native") {
      return InvalidArgument("the plan asks for kernels '{}'; there are 'native' and 'portable'", message.kernels());
    }
    if (message.input_graph().empty()) return absl::OkStatus();
    auto graph = ParseGraph(message.input_graph());
    if (!graph.ok()) return Annotate(graph.status(), "the plan's input graph");
    plan_->input_graph_ = std::make_shared<const Graph>(*std::move(graph));
    return CheckInput(*plan_);
  }

  Status ReadUpdate(const proto::UpdateRule& message) {
    RIVULET_RETURN_IF_ERROR(CheckName("aggregation rule", message.aggregation()));
    if (message.weight_by() != "examples") {
      return InvalidArgument("the plan weighs updates by '{}'; they can be weighed by examples", message.weight_by());
    }
    AggregationSpec& spec = plan_->aggregation_;
    spec.rule = message.aggregation();
    spec.elements = plan_->layout_->update_elements();
    spec.updates_per_version = message.updates_per_version();
    spec.max_weight = message.max_weight();
    spec.value_bits = message.value_bits();
    RIVULET_RETURN_IF_ERROR(Annotate(ValidateSpec(spec), "the plan's update rule"));
    // Stated in the plan for others to read, and checked, since a sum of another resolution would be another model.
    if (message.fraction_bits() != spec.fraction_bits()) {
      return InvalidArgument("the plan states {} fraction bits where its bounds give {}", message.fraction_bits(),
                             spec.fraction_bits());
    }
    return absl::OkStatus();
  }

  // Not make_shared: only this class may construct, and it hands out a const Plan.
  std::unique_ptr<Plan> plan_ = std::make_unique<Plan>();
};

CompileOptions Plan::compile_options() const {
  CompileOptions options;
  options.kernels.portable = portable_kernels_;
  return options;
}

StatusOr<std::shared_ptr<const Plan>> Plan::Open(std::string bytes) { return PlanReader::Read(std::move(bytes)); }

}  // namespace rivulet
