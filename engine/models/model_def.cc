#include "engine/models/model_def.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "engine/base/join.h"
#include "engine/graph/compose.h"
#include "engine/graph/inference.h"
#include "engine/graph/scope.h"
#include "engine/graph/variable_name.h"
#include "engine/graphdef/graph_def.h"
#include "engine/models/replace_input.h"
#include "engine/variables/variables.h"

namespace rivulet {
namespace {

constexpr char kSlotSegment[] = "slot";

std::string Describe(const TensorSpec& spec) { return fmt::format("{}{}", Name(spec.dtype), spec.shape.ToString()); }

StatusOr<Output> Find(const Graph& graph, std::string_view name, std::string_view what) {
  StatusOr<Output> output = graph.FindOutput(name);
  if (!output.ok()) return Annotate(output.status(), what);
  return output;
}

StatusOr<Output> FindScalar(const Graph& graph, std::string_view name, std::string_view what) {
  RIVULET_ASSIGN_OR_RETURN(const Output output, Find(graph, name, what));
  if (output.dtype() != DType::kFloat32 || !Shape::Compatible(output.shape(), Shape{}))
    return InvalidArgument("{} '{}' is {}, but must be a float32 scalar, the mean over the batch", what, name,
                           Describe(output.node->outputs()[static_cast<size_t>(output.port)]));
  return output;
}

StatusOr<ModelInput> FindPlaceholder(const Graph& graph, std::string_view name, std::string_view what) {
  RIVULET_ASSIGN_OR_RETURN(const Output output, Find(graph, name, what));
  if (output.node->type() != "Placeholder")
    return InvalidArgument("{} '{}' is a {}, but must be a Placeholder", what, name, output.node->type());
  return ModelInput{output.node->name(), output.node->outputs()[0]};
}

// Whether examples of so many axes beside the batch's, or more, have a known size.
bool KnownButForBatch(const Shape& shape, int axes) {
  bool known = shape.known_rank() && shape.rank() > axes;
  for (int axis = 1; known && axis < shape.rank(); ++axis) known = shape.dim(axis) > 0;
  return known && shape.dim(0) == kUnknownDim;
}

Status CheckImage(const ModelInput& image) {
  const Shape& shape = image.spec.shape;
  if (image.spec.dtype == DType::kFloat32 && KnownButForBatch(shape, 1)) return absl::OkStatus();
  return InvalidArgument(
      "the image input '{}' is {}, but must be float32 with an unknown first dimension, the batch, and known others",
      image.placeholder, Describe(image.spec));
}

// Puts an int64 placeholder of that shape, and a cast, in the place of one of int32.
Status WidenToInt64(Graph& graph, ModelInput& input) {
  if (input.spec.dtype == DType::kInt64) return absl::OkStatus();
  const Output old = graph.Find(input.placeholder)->output();
  const Scope scope(graph);
  const Output wide = scope.Placeholder(input.placeholder + "/int64", DType::kInt64, input.spec.shape);
  const Output cast = scope.Op("Cast", {wide}, {{"DstT", DType::kInt32}}, input.placeholder + "/int32");
  RIVULET_RETURN_IF_ERROR(scope.status());
  RIVULET_RETURN_IF_ERROR(ReplaceInputOfConsumers(graph, old, cast, nullptr));
  input.placeholder = wide.node->name();
  input.spec = wide.node->outputs()[0];
  return absl::OkStatus();
}

// An input as described by its table, with that example shape and kind of feed.
Status DescribeInput(const InputSpec& spec, ModelInput& input) {
  const bool tokens = spec.encoding == FeatureEncoding::kInt64;
  const DType found = input.spec.dtype;
  if (tokens ? found != DType::kInt64 && found != DType::kInt32 : found != DType::kFloat32)
    return InvalidArgument("the input '{}' is {}, but {}", input.placeholder, Describe(input.spec),
                           tokens ? "tokens are int64 or int32" : "pixels and values are float32, and tokens integers");
  std::vector<int64_t> dims = {kUnknownDim};
  dims.insert(dims.end(), spec.shape.begin(), spec.shape.end());
  if (!spec.shape.empty()) {
    if (!Shape::Compatible(input.spec.shape, Shape(dims)))
      return InvalidArgument("the input '{}' is {}, which examples {} do not fit", input.placeholder,
                             Describe(input.spec), Shape(spec.shape).ToString());
    input.spec.shape = Shape(dims);
  }
  if (!KnownButForBatch(input.spec.shape, 0))
    return InvalidArgument(
        "the input '{}' is {}, whose first dimension, the batch, must be unknown and whose others known; give it a "
        "shape",
        input.placeholder, Describe(input.spec));
  input.encoding = spec.encoding;
  input.scale = spec.encoding == FeatureEncoding::kUint8 ? 1.0 / 255.0 : 1;
  input.upper_bound = spec.vocabulary;
  input.feature = spec.feature.empty() ? spec.name : spec.feature;
  return absl::OkStatus();
}

// The graph's feeds besides the label, in the order of the spec.
StatusOr<std::vector<ModelInput>> FindInputs(const Graph& graph, const GraphModelSpec& spec) {
  if (spec.inputs.empty()) {
    RIVULET_ASSIGN_OR_RETURN(ModelInput image, FindPlaceholder(graph, spec.image, "the image input"));
    RIVULET_RETURN_IF_ERROR(CheckImage(image));
    image.scale = 1.0 / 255.0;  // bytes of an image
    image.feature = "image";
    return std::vector<ModelInput>{image};
  }
  std::vector<ModelInput> inputs;
  for (const InputSpec& described : spec.inputs) {
    RIVULET_ASSIGN_OR_RETURN(ModelInput input, FindPlaceholder(graph, described.name, "the input"));
    RIVULET_RETURN_IF_ERROR(DescribeInput(described, input));
    if (std::ranges::find(inputs, input.placeholder, &ModelInput::placeholder) != inputs.end())
      return InvalidArgument("'{}' is named as an input twice", input.placeholder);
    inputs.push_back(std::move(input));
  }
  return inputs;
}

// Makes the label an int64 placeholder of any batch size.
Status SetLabel(Graph& graph, ModelInput& label) {
  const Shape& shape = label.spec.shape;
  if (label.spec.dtype == DType::kFloat32) {
    if (KnownButForBatch(shape, 0)) return absl::OkStatus();
    return InvalidArgument(
        "the label input '{}' is {}, but numbers that are predicted have an unknown first dimension, the batch, and "
        "known others",
        label.placeholder, Describe(label.spec));
  }
  const bool shaped = !shape.known_rank() || (shape.rank() == 1 && shape.dim(0) == kUnknownDim) ||
                      (shape.rank() == 2 && shape.dim(0) == kUnknownDim && shape.dim(1) == 1);
  if (!shaped || (label.spec.dtype != DType::kInt64 && label.spec.dtype != DType::kInt32))
    return InvalidArgument(
        "the label input '{}' is {}, but must be class numbers: int64 or int32, [?] or [?,1]; or float32",
        label.placeholder, Describe(label.spec));
  if (!shape.known_rank()) label.spec.shape = Shape{kUnknownDim};
  return WidenToInt64(graph, label);
}

// The width of the logits that the loss is computed from.
StatusOr<int64_t> ClassesOf(const Graph& graph, Node* loss) {
  for (Node* node : graph.TopologicalOrder({&loss, 1})) {
    if (node->type() != "SparseSoftmaxCrossEntropyWithLogits" && node->type() != "SoftmaxCrossEntropyWithLogits")
      continue;
    const Shape& logits = node->input(0).shape();
    if (logits.known_rank() && logits.rank() > 0 && logits.dim(logits.rank() - 1) > 0)
      return logits.dim(logits.rank() - 1);
  }
  return InvalidArgument(
      "the number of classes does not follow from the loss '{}', which has no softmax cross-entropy of a known width; "
      "state it",
      loss->name());
}

// Imports the nodes that `results` need, and makes a target with the initial values of their variables. Variables of
// the old target alone, such as an optimiser's slots, are omitted.
StatusOr<Graph> KeepModel(const Graph& graph, std::vector<Node*> results, const std::string& init_target) {
  Node* init = graph.Find(init_target);
  if (init == nullptr)
    return NotFound("the graph has no node '{}' that gives variables their first values", init_target);
  std::vector<std::string> missing;  // variables without a first value, so far
  for (const Node* node : graph.TopologicalOrder(results))
    if (node->type() == "VarHandleOp" && std::ranges::find(missing, VariableName(*node)) == missing.end())
      missing.emplace_back(VariableName(*node));
  if (missing.empty()) return InvalidArgument("the graph has no variables, so there is nothing to train");
  std::vector<std::string> assigned;
  const std::vector<std::string> wanted = missing;
  for (Node* node : graph.TopologicalOrder({&init, 1})) {
    if (node->type() != "AssignVariableOp" || node->input(0).node->type() != "VarHandleOp") continue;
    const std::string_view variable = VariableName(*node->input(0).node);
    if (std::ranges::find(wanted, variable) == wanted.end()) continue;
    std::erase(missing, variable);
    assigned.push_back(node->name());
    results.push_back(node);
  }
  if (!missing.empty())
    return InvalidArgument("the variable '{}' gets no first value from '{}'", missing.front(), init_target);
  RIVULET_ASSIGN_OR_RETURN(Graph kept, Subgraph(graph, results));
  if (kept.Find(init_target) == nullptr) {
    std::vector<Node*> before;
    for (const std::string& name : assigned) before.push_back(kept.Find(name));
    RIVULET_RETURN_IF_ERROR(kept.AddNode({init_target, "NoOp", {}, std::move(before)}).status());
  }
  return kept;
}

}  // namespace

StatusOr<std::vector<ModelVariable>> VariablesOf(const Graph& graph) {
  static constexpr std::string_view kSegments[] = {"trainable", "shared", "local", "frozen", "base"};
  std::vector<ModelVariable> variables;
  std::unordered_map<std::string, size_t> index_of;
  for (const auto& node : graph.nodes()) {
    if (node->type() != "VarHandleOp") continue;
    ModelVariable variable{std::string(VariableName(*node)), {VariableDType(*node), node->attr<Shape>("shape")}};
    if (const std::string* segment = node->FindAttr<std::string>(kSegmentAttr)) variable.segment = *segment;
    if (variable.segment == kSlotSegment) continue;
    if (std::ranges::find(kSegments, variable.segment) == std::end(kSegments))
      return InvalidArgument("the variable '{}' has the segment '{}'; segments are {}", variable.name, variable.segment,
                             Join(kSegments, ", "));
    if (const Status known = variable.spec.shape.CheckedElements().status(); !known.ok())
      return Annotate(known, fmt::format("the variable '{}'", variable.name));
    const auto [known_as, is_new] = index_of.emplace(variable.name, variables.size());
    if (is_new) {
      variables.push_back(std::move(variable));
      continue;
    }
    const ModelVariable& same = variables[known_as->second];
    if (same.spec != variable.spec || same.segment != variable.segment)
      return InvalidArgument("the variable '{}' is both {} ({}) and {} ({})", variable.name, Describe(same.spec),
                             same.segment, Describe(variable.spec), variable.segment);
  }
  return variables;
}

StatusOr<ModelDef> ModelFromGraph(std::string_view graph_def, const GraphModelSpec& spec) {
  GraphImport import;
  if (spec.inputs.empty()) import.roots = {spec.image};
  for (const InputSpec& input : spec.inputs) import.roots.push_back(input.name);
  import.roots.insert(import.roots.end(), {spec.label, spec.loss, spec.init_target});
  if (!spec.eval_loss.empty()) import.roots.push_back(spec.eval_loss);
  for (const auto& [name, tensor] : spec.metrics) import.roots.push_back(tensor);

  const StatusOr<Graph> parsed = spec.text ? ParseGraphText(graph_def, import) : ParseGraph(graph_def, import);
  if (absl::IsNotFound(parsed.status()) &&
      Message(parsed.status()).find(fmt::format("'{}'", spec.init_target)) != std::string_view::npos)
    return NotFound(
        "{} A frozen graph holds its weights as constants: `rivulet model import FILE --out DIR` makes variables of "
        "them, in DIR/graph.pb",
        Message(parsed.status()));
  if (!parsed.ok()) return parsed.status();
  const Graph& graph = *parsed;
  const std::string& eval_loss = spec.eval_loss.empty() ? spec.loss : spec.eval_loss;
  std::vector<Node*> results;
  RIVULET_ASSIGN_OR_RETURN(const Output loss, FindScalar(graph, spec.loss, "the loss"));
  RIVULET_ASSIGN_OR_RETURN(const Output evaluated, FindScalar(graph, eval_loss, "the evaluation loss"));
  results = {loss.node, evaluated.node};
  for (const auto& [name, tensor] : spec.metrics) {
    RIVULET_ASSIGN_OR_RETURN(const Output metric, FindScalar(graph, tensor, fmt::format("the metric '{}':", name)));
    results.push_back(metric.node);
  }
  ModelDef model;
  RIVULET_ASSIGN_OR_RETURN(std::vector<ModelInput> inputs, FindInputs(graph, spec));
  RIVULET_ASSIGN_OR_RETURN(model.label, FindPlaceholder(graph, spec.label, "the label input"));
  for (const ModelInput& input : inputs) {
    if (model.label.placeholder == input.placeholder)
      return InvalidArgument("'{}' is named as the {}input and as the label input", input.placeholder,
                             spec.inputs.empty() ? "image " : "");
    results.push_back(graph.Find(input.placeholder));
  }
  results.push_back(graph.Find(model.label.placeholder));
  if (spec.classes < 0) return InvalidArgument("a model cannot have {} classes", spec.classes);
  const bool numbers = model.label.spec.dtype == DType::kFloat32;
  model.classes = numbers ? 0 : spec.classes;
  if (model.classes == 0 && !numbers) {
    RIVULET_ASSIGN_OR_RETURN(model.classes, ClassesOf(graph, loss.node));
  }

  RIVULET_ASSIGN_OR_RETURN(model.graph, KeepModel(graph, std::move(results), spec.init_target));
  RIVULET_RETURN_IF_ERROR(SetLabel(model.graph, model.label));
  for (ModelInput& input : inputs)
    if (input.encoding == FeatureEncoding::kInt64) RIVULET_RETURN_IF_ERROR(WidenToInt64(model.graph, input));
  model.input = std::move(inputs[0]);
  model.more_inputs.assign(std::make_move_iterator(inputs.begin() + 1), std::make_move_iterator(inputs.end()));
  model.label.encoding = numbers ? FeatureEncoding::kFloat : FeatureEncoding::kInt64;
  model.label.upper_bound = model.classes;
  model.label.feature = "label";
  model.init_target = spec.init_target;
  model.train_loss = spec.loss;
  model.eval_loss = eval_loss;
  model.metrics = spec.metrics;
  RIVULET_ASSIGN_OR_RETURN(model.variables, VariablesOf(model.graph));
  return model;
}

}  // namespace rivulet
