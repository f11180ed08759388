#include "engine/onnx/trainable.h"

#include <algorithm>
#include <map>
#include <set>

#include "engine/onnx/builder.h"
#include "engine/onnx/import.h"
#include "engine/variables/variables.h"

namespace rivulet::onnx {
namespace {

// Names that the classifier gives its own nodes.
const std::set<std::string, std::less<>>& TakenNames() {
  static const std::set<std::string, std::less<>> names = {
      "image",      "tokens",        "label",         "logits",  "loss",       "init",
      "prediction", "correct",       "accuracy",      "one_hot", "model",      "mse",
      "training",   "cross_entropy", "squared_error", "mae",     "exact_match"};
  return names;
}

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
  return TakenNames().contains(legal) ? legal + "_1" : legal;
}

std::string Listed(const std::vector<int64_t>& dims) { return Shape(dims).ToString(); }

bool IsImage(const std::vector<int64_t>& chw) { return chw.size() == 3; }
// An image that has its channels first as far as its sizes tell: they are not at the end.
bool ChannelsStandFirst(const std::vector<int64_t>& dims) {
  const auto few = [](int64_t size) { return size == 1 || size == 3 || size == 4; };
  return IsImage(dims) && (few(dims[0]) || !few(dims[2]));
}
std::vector<int64_t> ChannelsLast(const std::vector<int64_t>& chw) { return {chw[1], chw[2], chw[0]}; }

// Whether `given` may be what the model, whose sizes may be open, wants.
bool Fits(const std::vector<int64_t>& given, const std::vector<int64_t>& wanted) {
  return Shape::Compatible(Shape(given), Shape(wanted));
}

int64_t Product(const std::vector<int64_t>& dims) {
  int64_t product = 1;
  for (int64_t dim : dims) product = dim < 0 || product < 0 ? -1 : product * dim;
  return product;
}

class Body {
 public:
  Body(std::string_view bytes, const TrainableOptions& options) : bytes_(bytes), options_(options) {}

  // The shape of one example.
  Status Prepare() {
    RIVULET_ASSIGN_OR_RETURN(const std::vector<OnnxValue> inputs, OnnxInputs(bytes_));
    if (inputs.size() != 1)
      return InvalidArgument("the model has {} inputs; one that is trained has one, of examples", inputs.size());
    spec_ = inputs[0].spec;
    input_name_ = inputs[0].name;
    const Shape& shape = spec_.shape;
    if (!shape.known_rank() || shape.rank() < 2)
      return InvalidArgument("the model's input '{}' is {}, which has no batch of examples", inputs[0].name,
                             shape.ToString());
    wanted_.assign(shape.dims().begin() + 1, shape.dims().end());
    example_ = options_.input;
    if (example_.empty()) {
      if (std::ranges::find(wanted_, kUnknownDim) != wanted_.end())
        return InvalidArgument("the model leaves the size of its input '{}' {} open; give model.input.shape",
                               inputs[0].name, shape.ToString());
      example_ =
          ChannelsStandFirst(wanted_) && options_.encoding != FeatureEncoding::kInt64 ? ChannelsLast(wanted_) : wanted_;
    }
    if (Fits(example_, wanted_)) return absl::OkStatus();
    transposes_ = IsImage(wanted_) && IsImage(example_) && Fits(example_, ChannelsLast(wanted_));
    if (!transposes_ && (Product(wanted_) < 0 || Product(wanted_) != Product(example_)))
      return InvalidArgument("examples {} do not fit the model's input '{}' {}", Listed(example_), inputs[0].name,
                             shape.ToString());
    reshapes_ = !transposes_;
    return absl::OkStatus();
  }
  const std::vector<int64_t>& example() const { return example_; }

  Output Build(Layers& layers, Output input) {
    const Scope& root = layers.scope();
    const Scope scope = root.SubScope("model");
    const Builder b(scope);
    OnnxBody body;
    body.training = layers.training();
    if (transposes_) input = b.Transpose(input, {0, 3, 1, 2});
    if (reshapes_) {
      std::vector<int64_t> dims = {-1};
      dims.insert(dims.end(), wanted_.begin(), wanted_.end());
      input = b.Reshape(input, dims);
    }
    body.inputs = {b.Cast(input, spec_.dtype)};
    body.weight = [&](const OnnxWeight& weight) { return Weight(root, weight); };
    ImportOptions import;
    import.folder = options_.folder;
    if (!root.status().ok()) return {};
    const StatusOr<OnnxBodyOutputs> built = BuildOnnx(bytes_, scope, body, import);
    if (!built.ok()) {
      root.Fail(absl::IsInvalidArgument(built.status()) ? ExplainBatch(built.status()) : built.status());
      return {};
    }
    // Examples come in batches of any size; scores that do not know so were computed with the exporter's.
    const Shape& scores = built->outputs[0].shape();
    if (FixedBatch() > 0 && scores.known_rank() && scores.rank() > 0 && scores.dim(0) != kUnknownDim) {
      root.Fail(ExplainBatch(InvalidArgument("the scores are of shape {} for every batch", scores.ToString())));
      return {};
    }
    SharedLayers& shared = layers.shared();
    shared.differs = shared.differs || built->differs;
    shared.updates.insert(shared.updates.end(), built->updates.begin(), built->updates.end());
    return Scores(b, built->outputs[0]);
  }

 private:
  // The size that the file gives its batches, or 0 where it leaves it open.
  int64_t FixedBatch() const { return std::max<int64_t>(spec_.shape.dim(0), 0); }

  Status ExplainBatch(const Status& status) const {
    if (FixedBatch() == 0) return status;
    return Annotate(status, fmt::format("the model was exported for batches of {}, and is trained on others; export it "
                                        "with dynamic_shapes (or dynamic_axes) that leave the first axis of its input "
                                        "'{}' open",
                                        FixedBatch(), input_name_));
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
  TensorSpec spec_;
  std::string input_name_;
  std::vector<int64_t> wanted_, example_;
  bool transposes_ = false, reshapes_ = false;
  std::map<std::string, Output> reads_;
};

}  // namespace

StatusOr<ModelDef> ModelFromOnnx(std::string_view bytes, const TrainableOptions& options) {
  Body body(bytes, options);
  RIVULET_RETURN_IF_ERROR(body.Prepare());
  ClassifierOptions classifier;
  classifier.input = body.example();
  classifier.encoding = options.encoding;
  classifier.target = options.target;
  classifier.loss = options.loss;
  return Classifier(classifier, [&](Layers& layers, Output input) { return body.Build(layers, input); });
}

}  // namespace rivulet::onnx
