#include "engine/gradients/example_layout.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>

#include "engine/graph/inference.h"
#include "engine/graph/op.h"

namespace rivulet {
namespace {

using Layouts = std::vector<ExampleLayout>;  // by output

std::optional<std::vector<int64_t>> KnownIntegers(Output output) {
  const std::optional<Tensor> value = ConstantValue(output, [](Output o) -> const Shape& { return o.shape(); });
  if (!value) return std::nullopt;
  std::vector<int64_t> integers;
  if (value->dtype() == DType::kInt32) {
    for (const int32_t v : value->flat<int32_t>()) integers.push_back(v);
  } else if (value->dtype() == DType::kInt64) {
    for (const int64_t v : value->flat<int64_t>()) integers.push_back(v);
  } else {
    return std::nullopt;
  }
  return integers;
}

// One node, some input of which has examples and none of which mixes them. A rule that does not apply returns false,
// and the node mixes.
class NodeRule {
 public:
  NodeRule(ExampleLayouts& layouts, const Node& node, Layouts inputs)
      : layouts_(layouts), node_(node), inputs_(std::move(inputs)), outputs_(node.outputs().size(), Mixed(false)) {
    for (size_t i = 0; i < inputs_.size() && first_ < 0; ++i)
      if (inputs_[i].examples()) first_ = static_cast<int>(i);
  }

  Layouts Apply();

  // Rules by kind of op.
  bool Elementwise();
  bool SameElements();
  bool Transposed();
  bool Leading();
  bool Sequence();
  bool KeepAxis();
  bool Normalized();
  bool Softmaxed();
  bool Reduced();
  bool ArgReduced();
  bool Product();
  bool BatchProduct();
  bool Einsum();
  bool Gathered();
  bool RowsGathered();
  bool OneHot();
  bool Concatenated();
  bool Packed();
  bool Along();
  bool StridedSlice();
  bool CrossEntropy();

 private:
  ExampleLayout Mixed(bool no_rule) const { return {ExampleLayout::Kind::kMixed, 0, &node_, no_rule}; }
  const Shape& in(int i) const { return node_.input(i).shape(); }
  const Shape& out(int port) const { return node_.outputs()[static_cast<size_t>(port)].shape; }
  const ExampleLayout& layout(int i) const { return inputs_[static_cast<size_t>(i)]; }
  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  bool has(int i) const { return i < num_inputs() && layout(i).examples(); }
  std::optional<ExampleAxis> axis(int i) const { return layouts_.AxisOf(in(i), layout(i).stride); }
  // The one axis of all inputs that have examples; nullopt where they differ.
  std::optional<ExampleAxis> CommonAxis() const {
    std::optional<ExampleAxis> common;
    for (int i = 0; i < num_inputs(); ++i) {
      if (!has(i)) continue;
      const auto at = axis(i);
      if (!at || (common && !(*at == *common))) return std::nullopt;
      common = at;
    }
    return common;
  }
  bool Put(int port, ExampleAxis at) {
    const Shape& shape = out(port);
    if (!shape.IsFullyKnown() || at.axis < 0 || at.axis >= shape.rank() ||
        shape.dim(at.axis) != at.outer * layouts_.examples() * at.inner)
      return false;
    outputs_[static_cast<size_t>(port)] = ExampleLayout::Examples(ExampleLayouts::StrideAt(shape, at));
    return true;
  }
  bool PutAll(ExampleAxis at) {
    for (int port = 0; port < static_cast<int>(outputs_.size()); ++port)
      if (!Put(port, at)) return false;
    return true;
  }
  std::optional<int> KnownAxis(int i, int rank) const {
    const auto axis = KnownIntegers(node_.input(i));
    if (!axis || axis->size() != 1) return std::nullopt;
    return static_cast<int>(axis->front() < 0 ? axis->front() + rank : axis->front());
  }
  bool flag(const char* name) const {
    const bool* const value = node_.FindAttr<bool>(name);
    return value != nullptr && *value;
  }
  int64_t integer(const char* name, int64_t otherwise) const {
    const int64_t* const value = node_.FindAttr<int64_t>(name);
    return value == nullptr ? otherwise : *value;
  }

  ExampleLayouts& layouts_;
  const Node& node_;
  const Layouts inputs_;
  Layouts outputs_;
  int first_ = -1;  // input with examples
};

// Broadcast as NumPy does: axes are counted from the last.
bool NodeRule::Elementwise() {
  const Shape& result = out(0);
  if (!result.IsFullyKnown()) return false;
  std::optional<ExampleAxis> common;
  for (int i = 0; i < num_inputs(); ++i) {
    if (!has(i)) continue;
    auto at = axis(i);
    if (!at) return false;
    const int size = static_cast<int>(in(i).dim(at->axis));
    at->axis += result.rank() - in(i).rank();
    if (at->axis < 0 || result.dim(at->axis) != size || (common && !(*at == *common))) return false;
    common = at;
  }
  return common && PutAll(*common);
}

bool NodeRule::SameElements() {
  if (!out(0).IsFullyKnown()) return false;
  outputs_[0] = layout(first_);
  return true;
}

bool NodeRule::Transposed() {
  const auto order = KnownIntegers(node_.input(1));
  auto at = axis(0);
  if (!order || !at) return false;
  const auto found = std::ranges::find(*order, at->axis);
  if (found == order->end()) return false;
  at->axis = static_cast<int>(found - order->begin());
  return Put(0, *at);
}

// Inputs and outputs with the batch first: windows over images, attention.
bool NodeRule::Leading() {
  const auto at = CommonAxis();
  if (!at || at->axis != 0) return false;
  for (int port = 0; port < static_cast<int>(outputs_.size()); ++port) {
    const Shape& shape = out(port);
    if (shape.IsFullyKnown() && shape.rank() > 0 && Put(port, *at)) continue;
    outputs_[static_cast<size_t>(port)] = Mixed(false);
  }
  return outputs_[0].examples();
}

// Rows are [batch, time, width] or [time, batch, width]; states and lengths have the batch first. Ports of neither
// shape are sums over the batch.
bool NodeRule::Sequence() {
  const int batch = flag("time_major") ? 1 : 0;
  for (int i = 0; i < num_inputs(); ++i) {
    if (!has(i)) continue;
    const auto at = axis(i);
    if (!at || at->outer != 1 || at->inner != 1 || at->axis != (in(i).rank() == 3 ? batch : 0)) return false;
  }
  for (int port = 0; port < static_cast<int>(outputs_.size()); ++port) {
    const int rank = out(port).known_rank() ? out(port).rank() : 0;
    if (rank == 3 || rank == 2) Put(port, {rank == 3 ? batch : 0, 1, 1});
  }
  return outputs_[0].examples();
}

// The axis of the examples is neither moved nor changed in size.
bool NodeRule::KeepAxis() {
  const auto at = CommonAxis();
  return at && PutAll(*at);
}

// LayerNorm, RmsNorm and their gradients: axes before begin_norm_axis are independent. Outputs of a gradient other than
// the first are sums.
bool NodeRule::Normalized() {
  const auto at = CommonAxis();
  if (!at) return false;
  int64_t begin = integer("begin_norm_axis", -1);
  if (begin < 0) begin += out(0).rank();
  if (at->axis >= begin || !Put(0, *at)) return false;
  const bool gradient = node_.type().ends_with("Grad");
  for (int port = 1; !gradient && port < static_cast<int>(outputs_.size()); ++port)
    if (!Put(port, *at)) return false;
  return true;
}

bool NodeRule::Softmaxed() {
  const auto at = CommonAxis();
  return at && at->axis != out(0).rank() - 1 && PutAll(*at);
}

bool NodeRule::Reduced() {
  if (!has(0) || has(1)) return false;
  auto at = axis(0);
  auto axes = KnownIntegers(node_.input(1));
  if (!at || !axes) return false;
  int before = 0;
  std::set<int64_t> reduced;
  for (int64_t a : *axes) reduced.insert(a < 0 ? a + in(0).rank() : a);
  if (reduced.contains(at->axis)) return false;
  for (const int64_t a : reduced) before += a < at->axis ? 1 : 0;
  if (!flag("keep_dims")) at->axis -= before;
  return Put(0, *at);
}

bool NodeRule::ArgReduced() {
  const auto reduced = KnownAxis(1, in(0).rank());
  auto at = axis(0);
  if (!reduced || !at || *reduced == at->axis) return false;
  if (*reduced < at->axis) --at->axis;
  return Put(0, *at);
}

bool NodeRule::Product() {
  if (has(0) && has(1)) return false;
  const int i = has(0) ? 0 : 1;
  const auto at = axis(i);
  // The axis that remains of the first operand is its rows, of the second its columns.
  const bool transposed = flag(i == 0 ? "transpose_a" : "transpose_b");
  const int kept = i == 0 ? (transposed ? 1 : 0) : (transposed ? 0 : 1);
  if (!at || at->axis != kept) return false;
  return Put(0, {i, at->outer, at->inner});
}

bool NodeRule::BatchProduct() {
  const int rank = out(0).rank();
  std::optional<ExampleAxis> common;
  for (int i = 0; i < 2; ++i) {
    if (!has(i)) continue;
    auto at = axis(i);
    if (!at) return false;
    const int mine = in(i).rank();
    const bool adjoint = flag(i == 0 ? "adj_x" : "adj_y");
    if (at->axis >= mine - 2) {
      // Rows of x or columns of y, beside an operand without examples.
      const bool rows = at->axis == mine - (adjoint ? 1 : 2);
      if (has(1 - i) || rows != (i == 0)) return false;
      at->axis = rank - (i == 0 ? 2 : 1);
    } else {
      at->axis += rank - mine;
    }
    if (common && !(*common == *at)) return false;
    common = at;
  }
  return common && Put(0, *common);
}

bool NodeRule::Einsum() {
  const std::string& equation = node_.attr<std::string>("equation");
  if (equation.find('.') != std::string::npos || equation.find(' ') != std::string::npos) return false;
  const size_t arrow = equation.find("->");
  if (arrow == std::string::npos) return false;
  const std::string result = equation.substr(arrow + 2);
  std::vector<std::string> terms(1);
  for (const char c : equation.substr(0, arrow)) {
    if (c == ',') {
      terms.emplace_back();
    } else {
      terms.back() += c;
    }
  }
  std::optional<ExampleAxis> common;
  char label = 0;
  for (int i = 0; i < num_inputs(); ++i) {
    if (!has(i)) continue;
    const auto at = axis(i);
    if (!at || static_cast<size_t>(i) >= terms.size()) return false;
    const char mine = terms[static_cast<size_t>(i)][static_cast<size_t>(at->axis)];
    if (common && (mine != label || at->outer != common->outer || at->inner != common->inner)) return false;
    common = at;
    label = mine;
  }
  const size_t place = result.find(label);
  if (!common || place == std::string::npos) return false;
  common->axis = static_cast<int>(place);
  return Put(0, *common);
}

bool NodeRule::Gathered() {
  const int64_t batch_dims = integer("batch_dims", 0);
  const auto chosen = node_.type() == "Gather" ? std::optional<int>(0) : KnownAxis(2, in(0).rank());
  if (!chosen) return false;
  if (has(0) && has(1)) {
    const auto a = axis(0), b = axis(1);
    return a && b && *a == *b && a->axis < batch_dims && Put(0, *a);
  }
  if (batch_dims != 0) return false;
  if (has(1)) {
    auto at = axis(1);
    if (!at) return false;
    at->axis += *chosen;
    return Put(0, *at);
  }
  auto at = axis(0);
  if (!at || at->axis == *chosen) return false;
  if (at->axis > *chosen) at->axis += in(1).rank() - 1;
  return Put(0, *at);
}

// The rows of a variable that indices name.
bool NodeRule::RowsGathered() {
  const auto at = has(1) && integer("batch_dims", 0) == 0 ? axis(1) : std::nullopt;
  return at && Put(0, *at);
}

bool NodeRule::OneHot() {
  auto at = has(0) ? axis(0) : std::nullopt;
  if (!at) return false;
  const int64_t placed = integer("axis", -1);
  if (placed >= 0 && placed <= at->axis) ++at->axis;
  return Put(0, *at);
}

bool NodeRule::Concatenated() {
  const auto at = CommonAxis();
  const auto joined = KnownAxis(num_inputs() - 1, out(0).rank());
  return at && joined && *joined != at->axis && PutAll(*at);
}

bool NodeRule::Packed() {
  auto at = CommonAxis();
  if (!at) return false;
  const bool pack = node_.type() == "Pack";
  int64_t placed = integer("axis", 0);
  if (placed < 0) placed += (pack ? out(0) : in(0)).rank();
  if (pack) {
    if (placed <= at->axis) ++at->axis;
  } else {
    if (placed == at->axis) return false;
    if (placed < at->axis) --at->axis;
  }
  return PutAll(*at);
}

// Ops along one axis, which must be another one: the axis is an input or the attribute "axis".
bool NodeRule::Along() {
  const std::string_view type = node_.type();
  const int given = type == "Split" ? 0 : type == "SplitV" ? 2 : 1;
  const auto at = CommonAxis();
  if (!at) return false;
  if (type == "ReverseV2" || type == "Cumsum" || type == "Split" || type == "SplitV") {
    const auto axes = KnownIntegers(node_.input(given));
    if (!axes) return false;
    for (const int64_t a : *axes)
      if ((a < 0 ? a + out(0).rank() : a) == at->axis) return false;
  } else if (type == "TakeAlongAxis" || type == "ScatterAlongAxis") {
    const int64_t a = integer("axis", -1);
    if ((a < 0 ? a + out(0).rank() : a) == at->axis) return false;
  } else if (type == "ReverseSequence") {
    if (integer("seq_dim", 0) == at->axis) return false;
  }
  return PutAll(*at);
}

// The batch is first and whole, whatever is sliced from other axes; no axis is added or removed.
bool NodeRule::StridedSlice() {
  auto at = axis(0);
  const auto strides = KnownIntegers(node_.input(3));
  if (!has(0) || !at || !strides) return false;
  const int64_t shrink = integer("shrink_axis_mask", 0), added = integer("new_axis_mask", 0);
  const size_t place = static_cast<size_t>(at->axis);
  if (place < strides->size() && (*strides)[place] != 1) return false;
  const int64_t upto = (int64_t{1} << (at->axis + 1)) - 1;
  const bool plain = (shrink & upto) == 0 && (added & upto) == 0;
  if (!plain) return false;
  if (integer("ellipsis_mask", 0) != 0 && at->axis != 0) return false;
  return Put(0, *at);
}

bool NodeRule::CrossEntropy() {
  const auto scores = has(0) ? axis(0) : std::nullopt;
  if (!scores || scores->axis != 0) return false;
  if (has(1)) {
    const auto labels = axis(1);
    if (!labels || !(*labels == *scores)) return false;
  }
  return PutAll(*scores);
}

using Rule = bool (NodeRule::*)();

const std::map<std::string, Rule, std::less<>>& Rules() {
  static const auto* const rules = [] {
    auto* map = new std::map<std::string, Rule, std::less<>>;
    const auto add = [map](Rule rule, std::initializer_list<const char*> ops) {
      for (const char* op : ops) map->emplace(op, rule);
    };
    add(&NodeRule::Elementwise, {"Abs",
                                 "Acos",
                                 "Acosh",
                                 "Add",
                                 "AddN",
                                 "AddV2",
                                 "Asin",
                                 "Asinh",
                                 "Atan",
                                 "Atan2",
                                 "Atanh",
                                 "BiasAdd",
                                 "BroadcastTo",
                                 "Cast",
                                 "Ceil",
                                 "CheckNumerics",
                                 "ClipByValue",
                                 "Cos",
                                 "Cosh",
                                 "Div",
                                 "DivNoNan",
                                 "Elu",
                                 "EluGrad",
                                 "Equal",
                                 "Erf",
                                 "Erfc",
                                 "Exp",
                                 "Expm1",
                                 "Floor",
                                 "FloorDiv",
                                 "FloorMod",
                                 "Gelu",
                                 "GeluGrad",
                                 "Greater",
                                 "GreaterEqual",
                                 "HardSigmoid",
                                 "HardSwish",
                                 "Identity",
                                 "Inv",
                                 "IsFinite",
                                 "IsInf",
                                 "IsNan",
                                 "LeakyRelu",
                                 "LeakyReluGrad",
                                 "Less",
                                 "LessEqual",
                                 "Log",
                                 "Log1p",
                                 "LogicalAnd",
                                 "LogicalNot",
                                 "LogicalOr",
                                 "Maximum",
                                 "Minimum",
                                 "Mod",
                                 "Mul",
                                 "MulNoNan",
                                 "Neg",
                                 "NotEqual",
                                 "Pow",
                                 "PreventGradient",
                                 "RealDiv",
                                 "Reciprocal",
                                 "ReciprocalGrad",
                                 "Relu",
                                 "Relu6",
                                 "Relu6Grad",
                                 "ReluGrad",
                                 "Rint",
                                 "Round",
                                 "Rsqrt",
                                 "RsqrtGrad",
                                 "Select",
                                 "SelectV2",
                                 "Selu",
                                 "SeluGrad",
                                 "Sigmoid",
                                 "SigmoidGrad",
                                 "Sign",
                                 "Sin",
                                 "Sinh",
                                 "Snapshot",
                                 "Softplus",
                                 "SoftplusGrad",
                                 "Softsign",
                                 "SoftsignGrad",
                                 "Sqrt",
                                 "SqrtGrad",
                                 "Square",
                                 "SquaredDifference",
                                 "StopGradient",
                                 "Sub",
                                 "Tan",
                                 "Tanh",
                                 "TanhGrad",
                                 "Xdivy",
                                 "Xlog1py",
                                 "Xlogy"});
    add(&NodeRule::SameElements, {"ExpandDims", "Reshape", "Squeeze"});
    add(&NodeRule::Transposed, {"Transpose"});
    add(&NodeRule::Leading, {"AvgPool",
                             "AvgPoolGrad",
                             "Conv2D",
                             "Conv2DBackpropInput",
                             "Conv3D",
                             "Conv3DBackpropInputV2",
                             "DepthwiseConv2dNative",
                             "DepthwiseConv2dNativeBackpropInput",
                             "GroupNorm",
                             "GroupNormGrad",
                             "InstanceNorm",
                             "InstanceNormGrad",
                             "LRN",
                             "LRNGrad",
                             "MaxPool",
                             "MaxPoolGrad",
                             "ResizeBilinear",
                             "ResizeBilinearGrad",
                             "ResizeNearestNeighbor",
                             "ResizeNearestNeighborGrad",
                             "ScaledDotProductAttention",
                             "ScaledDotProductAttentionGrad",
                             "SpaceToDepth",
                             "DepthToSpace"});
    add(&NodeRule::Sequence, {"GRU", "GRUGrad", "LSTM", "LSTMGrad", "SimpleRNN", "SimpleRNNGrad"});
    add(&NodeRule::KeepAxis, {"MirrorPad", "Pad", "PadV2", "Slice", "StridedSliceGrad", "Tile"});
    add(&NodeRule::Normalized, {"LayerNorm", "LayerNormGrad", "RmsNorm", "RmsNormGrad"});
    add(&NodeRule::Softmaxed, {"LogSoftmax", "Softmax"});
    add(&NodeRule::Reduced, {"All", "Any", "Max", "Mean", "Min", "Prod", "Sum"});
    add(&NodeRule::ArgReduced, {"ArgMax", "ArgMin"});
    add(&NodeRule::Product, {"MatMul"});
    add(&NodeRule::BatchProduct, {"BatchMatMul", "BatchMatMulV2"});
    add(&NodeRule::Einsum, {"Einsum"});
    add(&NodeRule::Gathered, {"Gather", "GatherV2"});
    add(&NodeRule::RowsGathered, {"ResourceGather"});
    add(&NodeRule::OneHot, {"OneHot"});
    add(&NodeRule::Concatenated, {"ConcatV2"});
    add(&NodeRule::Packed, {"Pack", "Unpack"});
    add(&NodeRule::Along,
        {"Cumsum", "ReverseSequence", "ReverseV2", "ScatterAlongAxis", "Split", "SplitV", "TakeAlongAxis"});
    add(&NodeRule::StridedSlice, {"StridedSlice"});
    add(&NodeRule::CrossEntropy, {"SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits"});
    return map;
  }();
  return *rules;
}

// Ops whose outputs depend only on the shapes of their inputs.
bool OnlyNeedsShapes(std::string_view op) {
  static const std::set<std::string_view> ops = {
      "BroadcastGradientArgs", "OnesLike", "Rank", "Shape", "ShapeN", "Size", "ZerosLike"};
  return ops.contains(op);
}

// Their gradients sum over a batch; the rule of the sum (example_sums.h) takes them apart.
bool SumsExamples(std::string_view op) {
  static const std::set<std::string_view> ops = {"BiasAddGrad", "Conv2DBackpropFilter",
                                                 "DepthwiseConv2dNativeBackpropFilter", "UnsortedSegmentSum"};
  return ops.contains(op);
}

Layouts NodeRule::Apply() {
  const auto rule = Rules().find(node_.type());
  if (rule == Rules().end()) return Layouts(outputs_.size(), Mixed(!SumsExamples(node_.type())));
  bool known = true;
  for (int i = 0; i < num_inputs(); ++i) known &= !has(i) || in(i).IsFullyKnown();
  if (!known || !(this->*rule->second)()) {
    for (ExampleLayout& output : outputs_) output = Mixed(false);
  }
  return outputs_;
}

}  // namespace

std::optional<ExampleAxis> ExampleLayouts::AxisOf(const Shape& shape, int64_t stride) const {
  if (!shape.IsFullyKnown() || stride <= 0) return std::nullopt;
  int64_t suffix = 1;
  for (int axis = shape.rank() - 1; axis >= 0; suffix *= shape.dim(axis), --axis) {
    if (suffix == 0 || stride % suffix != 0) return std::nullopt;
    const int64_t inner = stride / suffix;
    if (shape.dim(axis) % (inner * examples_) == 0)
      return ExampleAxis{axis, shape.dim(axis) / inner / examples_, inner};
  }
  return std::nullopt;
}

std::optional<ExampleAxis> ExampleLayouts::AxisOf(Output output) {
  const ExampleLayout layout = Of(output);
  return layout.examples() ? AxisOf(output.shape(), layout.stride) : std::nullopt;
}

int64_t ExampleLayouts::StrideAt(const Shape& shape, const ExampleAxis& at) {
  int64_t stride = at.inner;
  for (int axis = at.axis + 1; axis < shape.rank(); ++axis) stride *= shape.dim(axis);
  return stride;
}

ExampleLayout ExampleLayouts::Of(Output output) {
  // Depth first without recursion: graphs of deep networks have thousands of nodes in a row.
  std::vector<const Node*> waiting = {output.node};
  while (!waiting.empty()) {
    const Node* const node = waiting.back();
    if (node->outputs().empty() || known_.contains({node, 0})) {
      waiting.pop_back();
      continue;
    }
    const size_t before = waiting.size();
    for (const Output& input : node->inputs())
      if (!known_.contains({input.node, input.port})) waiting.push_back(input.node);
    if (waiting.size() > before) continue;
    Compute(*node);
    waiting.pop_back();
  }
  return known_.at({output.node, output.port});
}

void ExampleLayouts::Compute(const Node& node) {
  Layouts inputs, outputs(node.outputs().size());
  bool any = false;
  const ExampleLayout* mixed = nullptr;
  for (const Output& input : node.inputs()) inputs.push_back(known_.at({input.node, input.port}));
  for (const ExampleLayout& input : inputs) {
    any |= input.examples();
    if (input.mixed() && mixed == nullptr) mixed = &input;
  }
  if (!OnlyNeedsShapes(node.type())) {
    if (mixed != nullptr) {
      std::ranges::fill(outputs, *mixed);
    } else if (any) {
      outputs = NodeRule(*this, node, inputs).Apply();
    }
  }
  for (size_t port = 0; port < outputs.size(); ++port)
    known_.try_emplace({&node, static_cast<int>(port)}, outputs[port]);
}

std::string DescribeMixing(const ExampleLayout& layout) {
  if (layout.mixer == nullptr) return "no node mixes examples";
  return layout.no_rule ? fmt::format("{} has no rule for single examples", DescribeNode(*layout.mixer))
                        : fmt::format("{} mixes the examples of a batch", DescribeNode(*layout.mixer));
}

}  // namespace rivulet
