#include "federated/plan/plan.h"

#include <algorithm>
#include <utility>

#include "federated/plan/plan_reader.h"

namespace rivulet {
namespace {

constexpr int64_t kMaxEpochs = 1'000'000, kMaxBatch = int64_t{1} << 20, kMaxSteps = int64_t{1} << 32;
constexpr int kMaxSlots = 16, kMaxScalars = 64, kMaxUpdateVectors = 16, kMaxPasses = 16, kMaxInstances = 8;
constexpr int kMaxStateVectors = 16, kMaxBroadcasts = 16, kMaxNumbers = 64, kMaxMechanisms = 8;
constexpr int kMaxMeasured = 16, kMaxDeclared = 16;

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
    if (message.format() == 1) {
      return InvalidArgument("the plan has format 1: it was built by an older program; build it again with this one");
    }
    if (message.format() < kPlanFormat || message.format() > kNewestPlanFormat) {
      return InvalidArgument(
          "the plan has format {}, and this program reads {} to {}: one side is to be brought up to date",
          message.format(), kPlanFormat, kNewestPlanFormat);
    }
    PlanReader reader;
    Plan& plan = *reader.plan_;
    plan.digest_ = Sha256Of(bytes);
    plan.format_ = message.format();
    plan.bytes_ = std::move(bytes);
    plan.signature_ = SignatureOf(plan.bytes_);
    // As the fields of any message they could stand anywhere, and be over other bytes than somebody thinks.
    if (message.author() != plan.signature_.author || message.signature() != plan.signature_.signature) {
      return InvalidArgument(
          "the plan names an author, and its signature is not the last of its bytes; sign it with "
          "'rivulet plan sign'");
    }
    RIVULET_RETURN_IF_ERROR(CheckName("name", message.name()));
    plan.name_ = message.name();
    RIVULET_RETURN_IF_ERROR(reader.ReadModel(message.model()));
    plan.download_ = message.model().download();
    if (!plan.external()) RIVULET_RETURN_IF_ERROR(reader.ReadFeatures(message.model()));
    RIVULET_RETURN_IF_ERROR(reader.ReadKernels(message.kernels()));
    RIVULET_RETURN_IF_ERROR(reader.ReadFlats(message.flats()));
    for (const proto::LocalProgramDef& program : message.programs()) {
      const auto two = [](const proto::PassDef& pass) { return !pass.other_gradient_by().empty(); };
      if (std::ranges::any_of(program.passes(), two)) plan.flat_names_.other_grads = true;
    }
    for (const proto::LocalProgramDef& program : message.programs()) {
      RIVULET_RETURN_IF_ERROR(reader.ReadProgram(program));
    }
    if (plan.program(TaskKind::kTrain) == nullptr) return InvalidArgument("the plan has no program to train with");
    for (const auto& [kind, program] : plan.programs_) {
      if (program.passes[0].dataset == plan.dataset()) continue;
      return InvalidArgument("the plan's programs read the data sets '{}' and '{}'; a client binds one for a plan",
                             plan.dataset(), program.passes[0].dataset);
    }
    RIVULET_RETURN_IF_ERROR(reader.CheckMeasured());
    RIVULET_RETURN_IF_ERROR(reader.CheckLocal());
    RIVULET_RETURN_IF_ERROR(reader.ReadAggregation(message.aggregation()));
    RIVULET_RETURN_IF_ERROR(reader.SumEvaluations());
    return std::shared_ptr<const Plan>(std::move(reader.plan_));
  }

 private:
  Status ReadModel(const proto::ModelProgram& message) {
    ModelDef& model = *(plan_->model_ = std::make_unique<ModelDef>());
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

  // A layout alone. What it leaves out has no meaning without a graph, and said all the same it is a mistake.
  Status ReadExternalModel(const proto::ModelProgram& message) {
    if (!message.init_target().empty() || !message.train_loss().empty() || !message.eval_loss().empty() ||
        message.metrics_size() + message.features_size() + message.train_updates_size() > 0) {
      return InvalidArgument("the plan names nodes of a model graph, and has no graph");
    }
    ModelDef& model = *plan_->model_;
    StatusOr<Digest> initial = Digest::FromBytes(message.initial_model());
    if (!initial.ok())
      return Annotate(initial.status(), "the plan has no graph; its digest of the model to begin with");
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

  Status LayOut() {
    std::vector<VariableSpec> specs;
    for (const ModelVariable& variable : plan_->model_->variables) {
      RIVULET_ASSIGN_OR_RETURN(const Segment segment, SegmentFromName(variable.segment));
      specs.push_back({variable.name, variable.spec, segment});
    }
    RIVULET_ASSIGN_OR_RETURN(ModelLayout layout, ModelLayout::Create(specs));
    plan_->layout_ = std::make_shared<const ModelLayout>(std::move(layout));
    return absl::OkStatus();
  }

  // A version has no values for local variables: each client begins a task with its own. So nothing may take the base
  // model for the whole one.
  Status CheckLocal() const {
    const auto& slices = plan_->layout_->slices();
    const auto local = std::ranges::find(slices, Segment::kLocal, &Slice::segment);
    if (local == slices.end()) return absl::OkStatus();
    const auto refuse = [&](std::string_view what) {
      return InvalidArgument("variable '{}' is local, so that no version has it, and {} the base model", local->name,
                             what);
    };
    if (plan_->program(TaskKind::kEvaluate) != nullptr) {
      for (const LocalPass& pass : plan_->program(TaskKind::kEvaluate)->passes) {
        const auto shared = [](const ModelInstance& instance) { return instance.buffer == "base_params"; };
        if (std::ranges::any_of(pass.models, shared)) return refuse("the plan has clients measure");
      }
    }
    if (std::ranges::any_of(plan_->flat_names_.state, &StateVector::from_base)) return refuse("a state begins as");
    for (const LocalPass& pass : plan_->training().passes) {
      for (const ModelInstance& instance : pass.models) {
        if (instance.buffer != "params") return refuse("a pass runs over");
      }
      for (const auto& graph : {pass.begin, pass.step, pass.end}) {
        if (graph == nullptr) continue;
        for (const auto& node : graph->nodes()) {
          if (node->type() == "VarHandleOp" && VariableName(*node) == "base_params") return refuse("a pass reads");
        }
      }
    }
    return absl::OkStatus();
  }

  // What graphs read of earlier passes some pass reports, and what they declare nothing else does.
  Status CheckMeasured() const {
    const FlatNames& names = plan_->flat_names_;
    const auto reported = [&](const std::string& name) {
      return std::ranges::any_of(plan_->programs_, [&](const auto& program) {
        return std::ranges::any_of(program.second.passes, [&](const LocalPass& pass) {
          return std::ranges::find(pass.scalars, name, &PassScalar::name) != pass.scalars.end();
        });
      });
    };
    for (const std::string& name : names.measured) {
      if (reported(name)) continue;
      return InvalidArgument("the plan's graphs read '{}{}', and no pass reports '{}'", kMeasuredPrefix, name, name);
    }
    for (const std::string& name : names.declared) {
      if (!reported(name) && std::ranges::find(names.numbers, name) == names.numbers.end() && name != "examples" &&
          name != "steps" && name != "train_seconds" && name != "loss") {
        continue;
      }
      return InvalidArgument("the plan's graphs declare '{}', which is declared already", name);
    }
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
      } else {
        model.more_inputs.push_back(input);
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

  Status ReadKernels(std::string_view kernels) {
    plan_->portable_kernels_ = kernels == "portable";
    if (plan_->portable_kernels_ || kernels.empty() || kernels == "native") return absl::OkStatus();
    return InvalidArgument("the plan asks for kernels '{}'; there are 'native' and 'portable'", kernels);
  }

  Status ReadFlats(const proto::FlatNamesDef& message) {
    if (plan_->external() && message.ByteSizeLong() > 0) {
      return InvalidArgument("the plan has flat variables, and no graph that would read or write them");
    }
    FlatNames& names = plan_->flat_names_;
    names.slots = message.slots();
    if (message.slots() < 0 || message.slots() > kMaxSlots) {
      return InvalidArgument("the plan asks for {} slots; a client has 0 to {}", message.slots(), kMaxSlots);
    }
    names.scalars = message.scalars();
    if (message.scalars() < 0 || message.scalars() > kMaxScalars) {
      return InvalidArgument("the plan asks for {} scalars; a client has 0 to {}", message.scalars(), kMaxScalars);
    }
    if (message.update_size() > kMaxUpdateVectors) {
      return InvalidArgument("the plan names {} vectors to send; a client has up to {}", message.update_size(),
                             kMaxUpdateVectors);
    }
    for (const std::string& name : message.update()) {
      RIVULET_RETURN_IF_ERROR(CheckName("name of a vector to send", name));
      if (std::ranges::find(names.update, name) != names.update.end()) {
        return InvalidArgument("the plan names the vector to send '{}' twice", name);
      }
      names.update.push_back(name);
    }
    if (message.state_size() > kMaxStateVectors) {
      return InvalidArgument("the plan has clients keep {} vectors; a client keeps up to {}", message.state_size(),
                             kMaxStateVectors);
    }
    for (const std::string& name : message.state()) {
      RIVULET_RETURN_IF_ERROR(CheckName("name of a vector to keep", name));
      const auto same = [&](const StateVector& state) { return state.name == name; };
      if (name.find('/') != name.npos || std::ranges::any_of(names.state, same)) {
        return InvalidArgument("the plan names the vector to keep '{}' twice, or with a '/'", name);
      }
      names.state.push_back(
          {name, std::ranges::find(message.state_from_base(), name) != message.state_from_base().end()});
    }
    for (const std::string& name : message.state_from_base()) {
      if (Flat(fmt::format("{}{}", kStatePrefix, name)).ok()) continue;
      return InvalidArgument("the plan says how '{}' begins, which no client keeps", name);
    }
    if (message.broadcast_size() > kMaxBroadcasts) {
      return InvalidArgument("the plan has clients read {} vectors beside the model; a client reads up to {}",
                             message.broadcast_size(), kMaxBroadcasts);
    }
    for (const std::string& name : message.broadcast()) {
      RIVULET_RETURN_IF_ERROR(CheckName("name of a vector to read", name));
      if (name.find('/') != name.npos || std::ranges::find(names.broadcast, name) != names.broadcast.end()) {
        return InvalidArgument("the plan names the vector to read '{}' twice, or with a '/'", name);
      }
      names.broadcast.push_back(name);
    }
    if (message.numbers_size() > kMaxNumbers) {
      return InvalidArgument("the plan has tasks bring {} numbers; a task brings up to {}", message.numbers_size(),
                             kMaxNumbers);
    }
    for (const std::string& name : message.numbers()) {
      RIVULET_RETURN_IF_ERROR(CheckName("name of a number", name));
      if (name.find('/') != name.npos || std::ranges::find(names.numbers, name) != names.numbers.end()) {
        return InvalidArgument("the plan names the number '{}' twice, or with a '/'", name);
      }
      names.numbers.push_back(name);
    }
    RIVULET_RETURN_IF_ERROR(ReadNames("number that graphs read", message.measured(), kMaxMeasured, names.measured));
    RIVULET_RETURN_IF_ERROR(ReadNames("number that graphs declare", message.declared(), kMaxDeclared, names.declared));
    const auto of_state = [&](std::string_view variable) {
      return std::ranges::any_of(names.state,
                                 [&](const StateVector& state) {
                                   return variable.starts_with(fmt::format("{}{}/", kStatePrefix, state.name));
                                 }) ||
             std::ranges::any_of(names.broadcast, [&](const std::string& name) {
               return variable.starts_with(fmt::format("{}{}/", kBroadcastPrefix, name));
             });
    };
    // A handle names one or the other.
    for (const Slice& slice : plan_->layout_->slices()) {
      if (slice.name.starts_with("grads/") || slice.name.starts_with(kSlotPrefix) ||
          slice.name.starts_with("other_grads/") || slice.name.starts_with("base_params/") || of_state(slice.name) ||
          Flat(slice.name).ok()) {
        return InvalidArgument("the model has a variable '{}', which is the name of a flat variable; rename it",
                               slice.name);
      }
    }
    return absl::OkStatus();
  }

  static Status ReadNames(std::string_view what, const google::protobuf::RepeatedPtrField<std::string>& said, int most,
                          std::vector<std::string>& names) {
    if (said.size() > most) {
      return InvalidArgument("the plan names {} of what it calls a {}; there are up to {}", said.size(), what, most);
    }
    for (const std::string& name : said) {
      RIVULET_RETURN_IF_ERROR(CheckName(fmt::format("name of a {}", what), name));
      if (std::ranges::find(names, name) != names.end()) {
        return InvalidArgument("the plan names the {} '{}' twice", what, name);
      }
      names.push_back(name);
    }
    return absl::OkStatus();
  }

  StatusOr<TensorSpec> Flat(std::string_view name) const { return FlatSpec(name, *plan_->layout_, plan_->flat_names_); }

  Status ReadProgram(const proto::LocalProgramDef& message) {
    if (message.kind() != static_cast<int>(TaskKind::kTrain) &&
        message.kind() != static_cast<int>(TaskKind::kEvaluate)) {
      return InvalidArgument("the plan has a program for tasks of kind {}, of which this program knows nothing",
                             message.kind());
    }
    const auto kind = static_cast<TaskKind>(message.kind());
    if (plan_->program(kind) != nullptr) return InvalidArgument("the plan has two programs to {}", Name(kind));
    if (message.passes().empty() || message.passes_size() > kMaxPasses) {
      return InvalidArgument("the plan's program to {} has {} passes; a client does 1 to {}", Name(kind),
                             message.passes_size(), kMaxPasses);
    }
    LocalProgram& program = plan_->programs_[kind];
    for (const proto::PassDef& pass : message.passes()) {
      RIVULET_RETURN_IF_ERROR(ReadPass(pass, program.passes.emplace_back()));
      if (program.passes.back().dataset == program.passes[0].dataset) continue;
      return InvalidArgument("the plan's passes read the data sets '{}' and '{}'; a client binds one for a plan",
                             program.passes[0].dataset, program.passes.back().dataset);
    }
    if (kind == TaskKind::kEvaluate && message.parts_size() > 0) {
      return InvalidArgument("the plan's program to evaluate has {} parts; an evaluation changes nothing",
                             message.parts_size());
    }
    for (const proto::PartSourceDef& part : message.parts()) RIVULET_RETURN_IF_ERROR(ReadSource(part, program));
    return ReadMechanisms(message, program);
  }

  // Whether there is a mechanism of the name, and its settings are in range, is for whoever carries it out to say.
  static Status ReadMechanisms(const proto::LocalProgramDef& message, LocalProgram& program) {
    if (message.mechanisms_size() > kMaxMechanisms) {
      return InvalidArgument("the plan has {} mechanisms; a client carries out up to {}", message.mechanisms_size(),
                             kMaxMechanisms);
    }
    for (const proto::MechanismDef& mechanism : message.mechanisms()) {
      RIVULET_RETURN_IF_ERROR(CheckName("mechanism", mechanism.name()));
      PieceSpec& piece = program.mechanisms.emplace_back(PieceSpec{mechanism.name()});
      for (const proto::SettingDef& setting : mechanism.settings()) {
        RIVULET_RETURN_IF_ERROR(CheckName("setting of a mechanism", setting.name()));
        if (setting.text().empty()) {
          piece.settings[setting.name()] = setting.number();
        } else {
          piece.settings[setting.name()] = setting.text();
        }
      }
    }
    return absl::OkStatus();
  }

  Status ReadPass(const proto::PassDef& message, LocalPass& pass) {
    RIVULET_RETURN_IF_ERROR(plan_->external() ? CheckHasNoGraphs(message) : ReadModels(message, pass));
    RIVULET_RETURN_IF_ERROR(ReadScalars(message, pass));
    const auto in_range = [](std::string_view what, int64_t value, int64_t low, int64_t high) -> Status {
      if (value >= low && value <= high) return absl::OkStatus();
      return InvalidArgument("the plan asks for {} {}; {} to {} can be done", value, what, low, high);
    };
    RIVULET_RETURN_IF_ERROR(in_range("epochs", message.epochs(), 1, kMaxEpochs));
    RIVULET_RETURN_IF_ERROR(in_range("examples in a batch", message.batch_size(), 1, kMaxBatch));
    RIVULET_RETURN_IF_ERROR(in_range("steps", message.max_steps(), 0, kMaxSteps));
    RIVULET_RETURN_IF_ERROR(CheckName("data set", message.dataset()));
    pass.epochs = message.epochs();
    if (!(message.partial_work() >= 0 && message.partial_work() <= 1)) {
      return InvalidArgument("the plan has a share of {} of its tasks be partial; 0 to 1 can be",
                             message.partial_work());
    }
    pass.partial_work = message.partial_work();
    pass.batch_size = message.batch_size();
    pass.shuffle = message.shuffle();
    pass.max_steps = message.max_steps();
    pass.dataset = message.dataset();
    if (plan_->external()) {
      pass.models.clear();
      pass.gradient_by.clear();
      pass.training = false;
      return absl::OkStatus();
    }
    RIVULET_RETURN_IF_ERROR(Annotate(ComposeForward(*plan_->model_, pass).status(), "a pass of the plan"));
    pass.loss_scale = message.loss_scale();
    if (!pass.loss_scale.empty()) {
      const auto flat = Flat(pass.loss_scale);
      if (!flat.ok()) return Annotate(flat.status(), "the plan's loss scale");
      if (flat->shape != Shape{}) return InvalidArgument("the plan's loss scale '{}' is no scalar", pass.loss_scale);
    }
    if (!pass.gradient_by.empty() && message.step().empty()) {
      return InvalidArgument("a pass of the plan does nothing with its gradients");
    }
    if (pass.gradient_by.empty() && message.step().empty() && pass.scalars.empty()) {
      return InvalidArgument("a pass of the plan neither changes nor reports anything");
    }
    RIVULET_RETURN_IF_ERROR(ReadFlatGraph("begin", message.begin(), !pass.gradient_by.empty(), pass.begin));
    RIVULET_RETURN_IF_ERROR(ReadFlatGraph("step", message.step(), !pass.gradient_by.empty(), pass.step));
    RIVULET_RETURN_IF_ERROR(ReadFlatGraph("end", message.end(), !pass.gradient_by.empty(), pass.end));
    if (message.input().empty()) return absl::OkStatus();
    auto graph = ParseGraph(message.input());
    if (!graph.ok()) return Annotate(graph.status(), "the plan's input graph");
    pass.input = std::make_shared<const Graph>(*std::move(graph));
    return CheckInput(*plan_, pass);
  }

  // What the pass computes of a batch, and what it is differentiated by.
  Status ReadModels(const proto::PassDef& message, LocalPass& pass) {
    if (message.models().empty() || message.models_size() > kMaxInstances) {
      return InvalidArgument("a pass of the plan has {} instances of the model; a client runs 1 to {}",
                             message.models_size(), kMaxInstances);
    }
    pass.models.clear();
    std::set<std::string> prefixes;
    for (const proto::ModelInstanceDef& instance : message.models()) {
      const bool vector = IsModelVector(instance.buffer()) && Flat(instance.buffer()).ok();
      if (instance.buffer() != "params" && instance.buffer() != "base_params" && !vector) {
        return InvalidArgument(
            "a pass of the plan runs the model over '{}'; it can be run over params, base_params and what the client "
            "keeps, remembers or is sent",
            instance.buffer());
      }
      if (instance.prefix().empty() != pass.models.empty() || !prefixes.insert(instance.prefix()).second) {
        return InvalidArgument(
            "a pass of the plan calls an instance of the model '{}'; the first has no name, and the "
            "others have one each",
            instance.prefix());
      }
      pass.models.push_back({instance.prefix(), instance.buffer()});
    }
    pass.training = message.training();
    pass.gradient_by = message.gradient_by();
    const auto differentiated = [&](const ModelInstance& instance) { return instance.buffer == pass.gradient_by; };
    if (!pass.gradient_by.empty() && std::ranges::none_of(pass.models, differentiated)) {
      return InvalidArgument(
          "a pass of the plan differentiates its loss by '{}', over which no instance of the model is",
          pass.gradient_by);
    }
    pass.other_gradient_by = message.other_gradient_by();
    const auto other = [&](const ModelInstance& instance) { return instance.buffer == pass.other_gradient_by; };
    if (!pass.other_gradient_by.empty() && (pass.gradient_by.empty() || pass.gradient_by == pass.other_gradient_by ||
                                            !pass.training || std::ranges::none_of(pass.models, other))) {
      return InvalidArgument(
          "a pass of the plan differentiates by '{}' beside '{}'; it wants another instance of the model than its own, "
          "and to train",
          pass.other_gradient_by, pass.gradient_by);
    }
    for (const std::string& by : {pass.gradient_by, pass.other_gradient_by}) {
      if (!by.starts_with(kBroadcastPrefix)) continue;
      return InvalidArgument("a pass of the plan differentiates by '{}', which can only be read", by);
    }
    if (!message.loss().empty()) {
      auto loss = ParseGraph(message.loss());
      if (!loss.ok()) return Annotate(loss.status(), "the plan's loss graph");
      pass.loss = std::make_shared<const Graph>(*std::move(loss));
    }
    for (const proto::NamedTensor& input : message.loss_inputs()) {
      pass.loss_inputs.emplace(input.name(), input.tensor());
    }
    return absl::OkStatus();
  }

  static Status CheckHasNoGraphs(const proto::PassDef& message) {
    if (message.models().empty() && message.loss().empty() && message.loss_inputs().empty() &&
        message.gradient_by().empty() && message.input().empty() && message.begin().empty() && message.step().empty() &&
        message.end().empty() && message.loss_scale().empty() && !message.training() &&
        std::ranges::all_of(message.scalars(), [](const auto& scalar) { return scalar.tensor().empty(); })) {
      return absl::OkStatus();
    }
    return InvalidArgument("a pass of the plan says how it is run, and the plan's model has no graph to run");
  }

  static Status ReadScalars(const proto::PassDef& message, LocalPass& pass) {
    std::set<std::string> names = {"examples", "steps", "train_seconds"};  // what every client declares itself
    for (const proto::PassScalarDef& scalar : message.scalars()) {
      RIVULET_RETURN_IF_ERROR(CheckName("scalar", scalar.name()));
      if (!names.insert(scalar.name()).second) {
        return InvalidArgument("a pass of the plan reports '{}', which is reported already", scalar.name());
      }
      pass.scalars.push_back({scalar.name(), scalar.tensor(), scalar.sum()});
    }
    return absl::OkStatus();
  }

  // A graph over flat variables alone, with the target `run`; "": none.
  Status ReadFlatGraph(std::string_view what, const std::string& graph_def, bool gradient,
                       std::shared_ptr<const Graph>& out) {
    if (graph_def.empty()) return absl::OkStatus();
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
      const auto flat = Flat(name);
      if (!flat.ok()) return Annotate(flat.status(), fmt::format("the plan's {} graph", what));
      const Shape& shape = node->attr<Shape>("shape");
      if (VariableDType(*node) != flat->dtype || !Shape::Compatible(shape, flat->shape)) {
        return InvalidArgument("the plan's {} graph takes '{}' for {}{}, and it is {}{}", what, name,
                               Name(VariableDType(*node)), shape.ToString(), Name(flat->dtype), flat->shape.ToString());
      }
      if ((name == "grads" || name == "other_grads") && (what != "step" || !gradient)) {
        return InvalidArgument("the plan's {} graph takes '{}', which are nobody's but their step's", what, name);
      }
      if (name == "steps" && what != "end") {
        return InvalidArgument("the plan's {} graph takes 'steps', which are counted when the last one is done", what);
      }
      // The base model is that of every task in the process. Whoever gets the handle might write: a function, say.
      for (const Node* user : OnlyRead(name) ? graph->Consumers(node->output()) : std::vector<Node*>{}) {
        if (user->type() == "ReadVariableOp" || user->type() == "VariableShape") continue;
        return InvalidArgument("the plan's {} graph gives '{}', which can only be read, to {} '{}'", what, name,
                               user->type(), user->name());
      }
    }
    out = std::make_shared<const Graph>(*std::move(graph));
    return absl::OkStatus();
  }

  // Parts are as long as the trainable segment, with the shared one behind it where they say so. Gradients are nobody's
  // after the step that made them.
  Status ReadSource(const proto::PartSourceDef& message, LocalProgram& program) {
    RIVULET_RETURN_IF_ERROR(CheckName("part", message.part()));
    const auto check = [&](const std::string& name) -> Status {
      const auto flat = Flat(name);
      if (!flat.ok()) return Annotate(flat.status(), fmt::format("the plan's part '{}'", message.part()));
      if (name != "grads" && name != "other_grads" && *flat == *Flat("params")) return absl::OkStatus();
      return InvalidArgument("the plan's part '{}' cannot be taken from '{}'", message.part(), name);
    };
    RIVULET_RETURN_IF_ERROR(check(message.from()));
    if (!message.less().empty()) RIVULET_RETURN_IF_ERROR(check(message.less()));
    const PartSource source = {message.from(), message.less(), message.shared_too()};
    if (!program.parts.emplace(message.part(), source).second) {
      return InvalidArgument("the plan says twice where the part '{}' lies", message.part());
    }
    return absl::OkStatus();
  }

  Status ReadAggregation(const proto::AggregationDef& message) {
    RIVULET_RETURN_IF_ERROR(CheckName("aggregation rule", message.rule()));
    const std::map<std::string, PartSource>& sources = plan_->training().parts;
    const auto same = [&] {
      if (std::ssize(sources) != message.parts_size()) return false;
      return std::all_of(message.parts().begin(), message.parts().end(),
                         [&](const proto::PartDef& part) { return sources.contains(part.name()); });
    };
    if (message.parts_size() < 1 || !same()) {
      return InvalidArgument(
          "the plan's training gives {} parts and its aggregation takes {}; they must be one and the "
          "same",
          sources.size(), message.parts_size());
    }
    AggregationSpec& spec = plan_->aggregation_;
    spec.rule = message.rule();
    for (const proto::SettingDef& setting : message.rule_settings()) {
      RIVULET_RETURN_IF_ERROR(CheckName("setting of an aggregation rule", setting.name()));
      if (!spec.rule_settings.emplace(setting.name(), setting.number()).second) {
        return InvalidArgument("the plan says twice what '{}' of its aggregation rule is", setting.name());
      }
    }
    spec.updates_per_version = message.updates_per_version();
    spec.max_weight = message.max_weight();
    spec.weight_fraction_bits = message.weight_fraction_bits();
    spec.staleness_bits = message.staleness_bits();
    const ModelLayout& layout = *plan_->layout_;
    for (const proto::PartDef& entry : message.parts()) {
      RIVULET_RETURN_IF_ERROR(CheckName("codec", entry.codec()));
      const int64_t elements = sources.at(entry.name()).shared_too ? layout.update_elements() : layout.parameters();
      if (entry.elements() != elements) {
        return InvalidArgument("the plan states {} elements of part '{}' where its training gives {}", entry.elements(),
                               entry.name(), elements);
      }
      PartSpec& part = spec.parts.emplace_back();
      part.name = entry.name();
      part.codec = entry.codec();
      for (const proto::SettingDef& setting : entry.codec_settings()) {
        RIVULET_RETURN_IF_ERROR(CheckName("setting of a codec", setting.name()));
        if (!part.codec_settings.emplace(setting.name(), setting.number()).second) {
          return InvalidArgument("the plan says twice what '{}' of codec '{}' is", setting.name(), part.codec);
        }
      }
      part.error_feedback = entry.error_feedback();
      if (part.error_feedback && !plan_->training().mechanisms.empty()) {
        return InvalidArgument(
            "the plan has clients add to part '{}' what was left out of earlier ones, so that its mechanism '{}' would "
            "bound and hide less than it says",
            part.name, plan_->training().mechanisms[0].name);
      }
      part.elements = elements;
      part.value_bits = entry.value_bits();
      if (entry.sum_bits() != 0) part.sum_bits = entry.sum_bits();
      part.weigh = entry.weigh();
      part.optional = entry.optional();
      if (entry.has_only_where()) part.only_where = {entry.only_where().scalar(), entry.only_where().value()};
      const int32_t kind = entry.denominator().kind();
      if (kind < 0 || kind > static_cast<int32_t>(Denominator::Kind::kScalar)) {
        return InvalidArgument("the plan divides part '{}' by what it calls {}; this client knows 0 to 3", part.name,
                               kind);
      }
      part.denominator.kind = static_cast<Denominator::Kind>(kind);
      part.denominator.constant = entry.denominator().constant();
      part.denominator.scalar = entry.denominator().scalar();
    }
    for (const proto::ScalarDef& entry : message.scalars()) spec.scalars.push_back({entry.name(), entry.weigh()});
    RIVULET_RETURN_IF_ERROR(Annotate(ValidateSpec(spec), "the plan's aggregation"));
    for (const PartSpec& part : spec.parts) {
      if (!part.only_where || Declared(part.only_where->scalar)) continue;
      return InvalidArgument("the plan's part '{}' is of updates that declare '{}', and its training declares none",
                             part.name, part.only_where->scalar);
    }
    // Stated in the plan for others to read, and checked, since a sum of another resolution would be another model.
    for (size_t p = 0; p < spec.parts.size(); ++p) {
      const int32_t stated = message.parts(static_cast<int>(p)).fraction_bits();
      if (stated == spec.fraction_bits(spec.parts[p])) continue;
      return InvalidArgument("the plan states {} fraction bits where its bounds give {}", stated,
                             spec.fraction_bits(spec.parts[p]));
    }
    return absl::OkStatus();
  }

  // Whether a training declares it.
  bool Declared(const std::string& name) const {
    const FlatNames& names = plan_->flat_names_;
    const auto in = [&](const std::vector<std::string>& some) { return std::ranges::find(some, name) != some.end(); };
    return in(names.declared) || in(names.numbers) || name == "examples" || name == "steps" ||
           std::ranges::any_of(plan_->training().passes, [&](const LocalPass& pass) {
             return std::ranges::find(pass.scalars, name, &PassScalar::name) != pass.scalars.end();
           });
  }

  // Follows from what the passes report, so that no plan states it.
  Status SumEvaluations() {
    const LocalProgram* const program = plan_->program(TaskKind::kEvaluate);
    if (program == nullptr) return absl::OkStatus();
    AggregationSpec& spec = plan_->evaluation_;
    spec.updates_per_version = int64_t{1} << 31;
    spec.max_weight = kMaxWeight;
    spec.scalars = {{"examples", "one"}};
    for (const LocalPass& pass : program->passes) {
      for (const PassScalar& scalar : pass.scalars)
        spec.scalars.push_back({scalar.name, scalar.sum ? "one" : "examples"});
    }
    return Annotate(ValidateSpec(spec), "the plan's program to evaluate");
  }

  // Not make_shared: only this class may construct, and it hands out a const Plan.
  std::unique_ptr<Plan> plan_ = std::make_unique<Plan>();
};

const LocalProgram* Plan::program(TaskKind kind) const {
  const auto found = programs_.find(kind);
  return found == programs_.end() ? nullptr : &found->second;
}

bool Plan::reads_broadcasts(TaskKind kind) const {
  const LocalProgram* const read = program(kind);
  if (read == nullptr || flat_names_.broadcast.empty()) return false;
  return kind == TaskKind::kTrain || std::ranges::any_of(read->passes, [](const LocalPass& pass) {
           return std::ranges::any_of(pass.models, [](const ModelInstance& instance) {
             return instance.buffer.starts_with(kBroadcastPrefix);
           });
         });
}

bool Plan::keeps_state() const {
  return !flat_names_.state.empty() || layout_->elements(Segment::kLocal) > 0 ||
         std::ranges::any_of(aggregation_.parts, &PartSpec::error_feedback);
}

bool Plan::measures_state() const {
  const LocalProgram* const evaluation = program(TaskKind::kEvaluate);
  if (evaluation == nullptr) return false;
  return layout_->elements(Segment::kLocal) > 0 || std::ranges::any_of(evaluation->passes, [](const LocalPass& pass) {
           return std::ranges::any_of(
               pass.models, [](const ModelInstance& instance) { return instance.buffer.starts_with(kStatePrefix); });
         });
}

CompileOptions Plan::compile_options() const {
  CompileOptions options;
  options.kernels.portable = portable_kernels_;
  return options;
}

StatusOr<std::shared_ptr<const Plan>> Plan::Open(std::string bytes) { return PlanReader::Read(std::move(bytes)); }

}  // namespace rivulet
