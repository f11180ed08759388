#include "engine/onnx/trainable.h"

#include <algorithm>
#include <map>

#include "engine/base/join.h"
#include "engine/onnx/builder.h"
#include "engine/onnx/import.h"
#include "engine/variables/variables.h"

namespace rivulet::onnx {
namespace {

std::string VariableNameOf(std::string_view name) {
  std::string legal;
  for (char c : name) {
    const bool alphanumeric = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    legal += alphanumeric || c == '.' || (!legal.empty() && (c == '_' || c == '-' || c == '/')) ? c : '_';
  }
  while (!legal.empty() && legal.front() == '_') legal.erase(0, 1);
  while (!legal.empty() && legal.back() == '/') legal.pop_back();
  if (legal.size() > 200) legal.resize(200);
  if (legal.empty()) legal = "weight";
  // Names of the classifier's own nodes, and of an input without a name.
  const bool taken = IsClassifierNode(legal) || legal == "image" || legal == "tokens";
  return taken ? legal + "_1" : legal;
}

std::string Listed(const std::vector<int64_t>& dims) { return Shape(dims).ToString(); }

bool IsImage(const std::vector<int64_t>& chw) { return chw.size() == 3; }
// Returns true for an image with channels first, as far as its sizes show: the channels are not last.
bool ChannelsStandFirst(const std::vector<int64_t>& dims) {
  const auto few = [](int64_t size) { return size == 1 || size == 3 || size == 4; };
  return IsImage(dims) && (few(dims[0]) || !few(dims[2]));
}
std::vector<int64_t> ChannelsLast(const std::vector<int64_t>& chw) { return {chw[1], chw[2], chw[0]}; }

// Returns true if `given` matches the model's shape, whose sizes may be open.
bool Fits(const std::vector<int64_t>& given, const std::vector<int64_t>& wanted) {
  return Shape::Compatible(Shape(given), Shape(wanted));
}

int64_t Product(const std::vector<int64_t>& dims) {
  int64_t product = 1;
  for (int64_t dim : dims) product = dim < 0 || product < 0 ? -1 : product * dim;
  return product;
}

// One input of the model, and how examples come to it.
struct FedInput {
  TensorSpec spec;              // the model's
  std::string name;             // likewise
  std::vector<int64_t> wanted;  // of one example, which may leave sizes open
  InputSpec example;            // as the classifier has it
  bool transposes = false, reshapes = false;
};

// The shape of one example, which `key` may say where the model leaves it open.
Status FitExample(FedInput& input, std::string_view key) {
  const Shape& shape = input.spec.shape;
  if (!shape.known_rank() || shape.rank() < 2)
    return InvalidArgument("the model's input '{}' is {}, which has no batch of examples", input.name,
                           shape.ToString());
  std::vector<int64_t>& wanted = input.wanted;
  std::vector<int64_t>& example = input.example.shape;
  wanted.assign(shape.dims().begin() + 1, shape.dims().end());
  if (example.empty()) {
    if (std::ranges::find(wanted, kUnknownDim) != wanted.end())
      return InvalidArgument("the model leaves the size of its input '{}' {} open; give {}", input.name,
                             shape.ToString(), key);
    const bool image = ChannelsStandFirst(wanted) && input.example.encoding != FeatureEncoding::kInt64;
    example = image ? ChannelsLast(wanted) : wanted;
  }
  if (Fits(example, wanted)) return absl::OkStatus();
  input.transposes = IsImage(wanted) && IsImage(example) && Fits(example, ChannelsLast(wanted));
  if (!input.transposes && (Product(wanted) < 0 || Product(wanted) != Product(example)))
    return InvalidArgument("examples {} do not fit the model's input '{}' {}", Listed(example), input.name,
                           shape.ToString());
  input.reshapes = !input.transposes;
  return absl::OkStatus();
}

class Body {
 public:
  Body(std::string_view bytes, const TrainableOptions& options) : bytes_(bytes), options_(options) {}

  // The example type of each input.
  Status Prepare() {
    RIVULET_ASSIGN_OR_RETURN(const std::vector<OnnxValue> inputs, OnnxInputs(bytes_));
    if (!options_.inputs.empty()) return PrepareNamed(inputs);
    if (inputs.size() != 1)
      return InvalidArgument("the model has {} inputs, {}; describe each in a table [[model.inputs]]", inputs.size(),
                             Join(NamesOf(inputs), ", "));
    FedInput& input = inputs_.emplace_back(FedInput{inputs[0].spec, inputs[0].name});
    input.example.shape = options_.input;
    input.example.encoding = options_.encoding;
    return FitExample(input, "model.input.shape");
  }

  // Inputs as the classifier feeds them, in the model's order.
  ClassifierOptions Fed() const {
    ClassifierOptions fed;
    if (options_.inputs.empty()) {
      fed.input = inputs_[0].example.shape;
      fed.encoding = options_.encoding;
      return fed;
    }
    for (const FedInput& input : inputs_) fed.inputs.push_back(input.example);
    return fed;
  }

  Output Build(Layers& layers, std::span<const Output> inputs) {
    const Scope& root = layers.scope();
    const Scope scope = root.SubScope("model");
    const Builder b(scope);
    OnnxBody body;
    body.training = layers.training();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const FedInput& fed = inputs_[i];
      Output input = inputs[i];
      if (fed.transposes) input = b.Transpose(input, {0, 3, 1, 2});
      if (fed.reshapes) {
        std::vector<int64_t> dims = {-1};
        dims.insert(dims.end(), fed.wanted.begin(), fed.wanted.end());
        input = b.Reshape(input, dims);
      }
      body.inputs.push_back(b.Cast(input, fed.spec.dtype));
    }
    body.weight = [&](const OnnxWeight& weight) { return Weight(root, weight); };
    ImportOptions import;
    import.folder = options_.folder;
    import.trainable = options_.trainable;
    if (!root.status().ok()) return {};
    const StatusOr<OnnxBodyOutputs> built = BuildOnnx(bytes_, scope, body, import);
    if (!built.ok()) {
      root.Fail(absl::IsInvalidArgument(built.status()) ? ExplainBatch(built.status()) : built.status());
      return {};
    }
    // Examples come in batches of any size; scores that do not know so were computed with the exporter's.
    const Shape& scores = built->outputs[0].shape();
    if (Fixed() != nullptr && scores.known_rank() && scores.rank() > 0 && scores.dim(0) != kUnknownDim) {
      root.Fail(ExplainBatch(InvalidArgument("the scores are of shape {} for every batch", scores.ToString())));
      return {};
    }
    SharedLayers& shared = layers.shared();
    shared.differs = shared.differs || built->differs;
    shared.updates.insert(shared.updates.end(), built->updates.begin(), built->updates.end());
    return Scores(b, built->outputs[0]);
  }

 private:
  static std::vector<std::string> NamesOf(const std::vector<OnnxValue>& inputs) {
    std::vector<std::string> names;
    for (const OnnxValue& input : inputs) names.push_back(fmt::format("'{}'", input.name));
    return names;
  }

  // Every input of the model has a table of its name, and every table an input.
  Status PrepareNamed(const std::vector<OnnxValue>& inputs) {
    for (const OnnxValue& value : inputs) {
      const auto given = std::ranges::find(options_.inputs, value.name, &InputSpec::name);
      if (given == options_.inputs.end())
        return InvalidArgument("the model's input '{}' has no table [[model.inputs]]; its inputs are {}", value.name,
                               Join(NamesOf(inputs), ", "));
      FedInput& input = inputs_.emplace_back(FedInput{value.spec, value.name, {}, *given});
      input.example.name = VariableNameOf(value.name);
      if (input.example.feature.empty()) input.example.feature = value.name;
      RIVULET_RETURN_IF_ERROR(FitExample(input, "its table a shape"));
    }
    if (options_.inputs.size() == inputs.size()) return absl::OkStatus();
    return InvalidArgument("{} tables [[model.inputs]] are given, and the model's inputs are {}",
                           options_.inputs.size(), Join(NamesOf(inputs), ", "));
  }

  // The first input whose batch size is fixed in the file; null if all are open.
  const FedInput* Fixed() const {
    const auto fixed = std::ranges::find_if(inputs_, [](const FedInput& input) { return input.spec.shape.dim(0) > 0; });
    return fixed == inputs_.end() ? nullptr : &*fixed;
  }

  Status ExplainBatch(const Status& status) const {
    const FedInput* const fixed = Fixed();
    if (fixed == nullptr) return status;
    return Annotate(status, fmt::format("the model was exported for batches of {}, and is trained on others; export it "
                                        "with dynamic_shapes (or dynamic_axes) that leave the first axis of its input "
                                        "'{}' open",
                                        fixed->spec.shape.dim(0), fixed->name));
  }

  // A variable is made by the first graph that asks, and read by both.
  Output Weight(const Scope& root, const OnnxWeight& weight) {
    if (const auto known = reads_.find(weight.name); known != reads_.end()) return known->second;
    std::string name = VariableNameOf(weight.name);
    for (int count = 1; root.graph().Find(name) != nullptr; ++count)
      name = fmt::format("{}_{}", VariableNameOf(weight.name), count);
    const Tensor value = weight.value;
    const Initializer first("onnx", [value](const Scope& scope, DType, const Shape&) { return scope.Const(value); });
    VariableOptions options;
    options.dtype = weight.value.dtype();
    options.segment = weight.segment;
    if (!weight.perm.empty()) options.more["_onnx_perm"] = weight.perm;
    const Output read = Variable(root, name, weight.value.shape(), first, options);
    if (read) reads_.emplace(weight.name, read);
    return read;
  }

  // Without a softmax at the end, which the loss has, and as [batch, classes] where only sizes of 1 follow.
  static Output Scores(const Builder& b, Output scores) {
    if (!scores) return {};
    if (scores.node->type() == "Identity") scores = scores.node->input(0);
    if (scores.node->type() == "Softmax") scores = scores.node->input(0);
    const Shape& shape = scores.shape();
    if (shape.known_rank() && shape.rank() == 4 && shape.dim(2) == 1 && shape.dim(3) == 1 && shape.dim(1) > 0)
      scores = b.Reshape(scores, {-1, shape.dim(1)});
    return b.Cast(scores, DType::kFloat32);
  }

  std::string_view bytes_;
  const TrainableOptions& options_;
  std::vector<FedInput> inputs_;
  std::map<std::string, Output> reads_;
};

}  // namespace

StatusOr<ModelDef> ModelFromOnnx(std::string_view bytes, const TrainableOptions& options) {
  Body body(bytes, options);
  RIVULET_RETURN_IF_ERROR(body.Prepare());
  ClassifierOptions classifier = body.Fed();
  classifier.target = options.target;
  classifier.loss = options.loss;
  classifier.loss_settings = options.loss_settings;
  classifier.metrics = options.metrics;
  return Classifier(classifier,
                    [&](Layers& layers, std::span<const Output> inputs) { return body.Build(layers, inputs); });
}

}  // namespace rivulet::onnx
