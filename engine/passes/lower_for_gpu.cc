// For devices only: replaces ops without a device kernel by ops that have one. Einsum becomes transposes and batched
// products, two operands at a time from the left; a grouped convolution becomes a depthwise one, or one convolution per
// group. Unsupported nodes stay, and lowering reports them.
#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "engine/ops/einsum.h"
#include "engine/passes/constant_values.h"
#include "engine/passes/pass.h"

namespace rivulet {
namespace {

using Labels = std::vector<int>;

bool Has(const Labels& labels, int label) { return std::ranges::find(labels, label) != labels.end(); }

bool Distinct(const Labels& labels) {
  Labels sorted = labels;
  std::ranges::sort(sorted);
  return std::ranges::adjacent_find(sorted) == sorted.end();
}

// Builder of small ops that replace a node.
class Builder {
 public:
  Builder(GraphEditor& graph, EditNode& beside) : graph_(graph), beside_(beside) {}

  Edge Ints(const std::vector<int64_t>& values) {
    std::vector<int32_t> narrow(values.begin(), values.end());
    return graph_
        .AddConst(beside_.name + "/of", Tensor::Of<int32_t>({static_cast<int64_t>(narrow.size())}, narrow), beside_)
        ->output();
  }
  Edge Int(int32_t value) {
    return graph_.AddConst(beside_.name + "/of", Tensor::Of<int32_t>({}, {value}), beside_)->output();
  }
  EditNode* Add(std::string_view op, std::vector<Edge> inputs, AttrMap attrs, std::vector<TensorSpec> outputs) {
    EditNode* made = graph_.Add(fmt::format("{}/{}", beside_.name, op), op, std::move(inputs), std::move(attrs),
                                std::move(outputs), beside_);
    // The new nodes do the work now, so they get the control inputs.
    for (EditNode* before : beside_.control_inputs) graph_.AddControlInput(*made, *before);
    return made;
  }
  Edge Reshape(Edge edge, const std::vector<int64_t>& dims) {
    return Add("Reshape", {edge, Ints(dims)}, {{"T", edge.dtype()}, {"Tshape", DType::kInt32}},
               {{edge.dtype(), Shape(dims)}})
        ->output();
  }
  Edge Transpose(Edge edge, const std::vector<int64_t>& order) {
    if (std::ranges::is_sorted(order)) return edge;
    std::vector<int64_t> dims;
    for (const int64_t axis : order) dims.push_back(edge.shape().dim(static_cast<int>(axis)));
    return Add("Transpose", {edge, Ints(order)}, {{"T", edge.dtype()}, {"Tperm", DType::kInt32}},
               {{edge.dtype(), Shape(dims)}})
        ->output();
  }
  std::vector<Edge> Split(Edge edge, int axis, int64_t parts) {
    std::vector<int64_t> dims(edge.shape().dims().begin(), edge.shape().dims().end());
    dims[static_cast<size_t>(axis)] /= parts;
    const std::vector<TensorSpec> outputs(static_cast<size_t>(parts), {edge.dtype(), Shape(dims)});
    EditNode* split = Add("Split", {Int(axis), edge}, {{"T", edge.dtype()}, {"num_split", parts}}, outputs);
    std::vector<Edge> made;
    for (int part = 0; part < static_cast<int>(parts); ++part) made.push_back(split->output(part));
    return made;
  }
  // Makes the node an Identity of `edge`.
  void BecomeIdentity(Edge edge) { graph_.Become(beside_, "Identity", {edge}, {{"T", edge.dtype()}}); }

 private:
  GraphEditor& graph_;
  EditNode& beside_;
};

struct Labelled {
  Edge edge;
  Labels labels;
};

class EinsumInPairs {
 public:
  EinsumInPairs(GraphEditor& graph, EditNode& node, EinsumLabels labels)
      : build_(graph, node), node_(node), labels_(std::move(labels)) {}

  // Diagonals, and axes repeated for a longer one, cannot be expressed as products.
  bool Fits() const {
    for (size_t i = 0; i < labels_.inputs.size(); ++i) {
      if (!Distinct(labels_.inputs[i])) return false;
      for (size_t axis = 0; axis < labels_.inputs[i].size(); ++axis) {
        const int64_t size = labels_.sizes[static_cast<size_t>(labels_.inputs[i][axis])];
        if (node_.inputs[i].shape().dim(static_cast<int>(axis)) != size) return false;
      }
    }
    // An output label that no operand has is invalid.
    return Distinct(labels_.output);
  }

  void Run() {
    std::vector<Labelled> left;
    for (size_t i = 0; i < labels_.inputs.size(); ++i) left.push_back({node_.inputs[i], labels_.inputs[i]});
    Labelled all = SumAlone(left[0], KeptBy(left, 1));
    for (size_t i = 1; i < left.size(); ++i) {
      const Labels kept = KeptBy(left, i + 1);
      Labels with_other = kept, with_all = kept;
      with_other.insert(with_other.end(), left[i].labels.begin(), left[i].labels.end());
      with_all.insert(with_all.end(), all.labels.begin(), all.labels.end());
      all = Product(SumAlone(all, with_other), SumAlone(left[i], with_all), kept);
    }
    std::vector<int64_t> order;
    for (const int label : labels_.output) order.push_back(PlaceOf(all.labels, label));
    build_.BecomeIdentity(build_.Transpose(all.edge, order));
  }

 private:
  static int64_t PlaceOf(const Labels& labels, int label) { return std::ranges::find(labels, label) - labels.begin(); }
  int64_t SizeOfAll(const Labels& labels) const {
    int64_t size = 1;
    for (const int label : labels) size *= labels_.sizes[static_cast<size_t>(label)];
    return size;
  }
  // Labels of the output and of the operands from `first` on.
  Labels KeptBy(const std::vector<Labelled>& operands, size_t first) const {
    Labels kept = labels_.output;
    for (size_t i = first; i < operands.size(); ++i)
      kept.insert(kept.end(), operands[i].labels.begin(), operands[i].labels.end());
    return kept;
  }

  // Sums over the labels that are not in `kept`.
  Labelled SumAlone(const Labelled& operand, const Labels& kept) {
    std::vector<int64_t> axes, dims;
    Labels labels;
    for (size_t axis = 0; axis < operand.labels.size(); ++axis) {
      if (Has(kept, operand.labels[axis])) {
        labels.push_back(operand.labels[axis]);
        dims.push_back(operand.edge.shape().dim(static_cast<int>(axis)));
      } else {
        axes.push_back(static_cast<int64_t>(axis));
      }
    }
    if (axes.empty()) return operand;
    EditNode* sum = build_.Add("Sum", {operand.edge, build_.Ints(axes)},
                               {{"T", operand.edge.dtype()}, {"Tidx", DType::kInt32}, {"keep_dims", false}},
                               {{operand.edge.dtype(), Shape(dims)}});
    return {sum->output(), labels};
  }

  // Transposes and reshapes `operand` to [all of a, all of b, all of c].
  Edge Packed(const Labelled& operand, const std::array<const Labels*, 3>& parts) {
    std::vector<int64_t> order, dims;
    for (const Labels* part : parts) {
      for (const int label : *part) order.push_back(PlaceOf(operand.labels, label));
      dims.push_back(SizeOfAll(*part));
    }
    return build_.Reshape(build_.Transpose(operand.edge, order), dims);
  }

  Labelled Product(const Labelled& a, const Labelled& b, const Labels& kept) {
    Labels batch, depth, rows, columns;
    for (const int label : a.labels) {
      Labels& part = !Has(b.labels, label) ? rows : Has(kept, label) ? batch : depth;
      part.push_back(label);
    }
    for (const int label : b.labels)
      if (!Has(a.labels, label)) columns.push_back(label);
    const Edge left = Packed(a, {&batch, &rows, &depth}), right = Packed(b, {&batch, &depth, &columns});
    EditNode* product =
        build_.Add("BatchMatMulV2", {left, right}, {{"T", left.dtype()}, {"adj_x", false}, {"adj_y", false}},
                   {{left.dtype(), Shape({SizeOfAll(batch), SizeOfAll(rows), SizeOfAll(columns)})}});
    Labels labels = std::move(batch);
    labels.insert(labels.end(), rows.begin(), rows.end());
    labels.insert(labels.end(), columns.begin(), columns.end());
    std::vector<int64_t> dims;
    for (const int label : labels) dims.push_back(labels_.sizes[static_cast<size_t>(label)]);
    return {build_.Reshape(product->output(), dims), labels};
  }

  Builder build_;
  EditNode& node_;
  const EinsumLabels labels_;
};

bool LowerEinsum(GraphEditor& graph, EditNode& node) {
  const auto* equation = node.FindAttr<std::string>("equation");
  if (equation == nullptr || !(node.outputs[0].dtype == DType::kFloat32 || node.outputs[0].dtype == DType::kFloat64))
    return false;
  const StatusOr<EinsumEquation> parsed = EinsumEquation::Parse(*equation, node.inputs.size());
  if (!parsed.ok()) return false;
  std::vector<Shape> shapes;
  for (const Edge& input : node.inputs) shapes.push_back(input.shape());
  StatusOr<EinsumLabels> labels = ResolveEinsum(*parsed, shapes);
  if (!labels.ok()) return false;
  EinsumInPairs einsum(graph, node, *std::move(labels));
  if (!einsum.Fits()) return false;
  einsum.Run();
  return true;
}

// Positions of image, filter and gradient in a convolution and its gradients: inputs, or the result.
struct ConvolutionOp {
  std::string_view op, depthwise;
  int image, filter, gradient;  // -1: the result
  int sizes;                    // index of the input with the result's sizes; -1: none
};
constexpr ConvolutionOp kConvolutions[] = {
    {"Conv2D", "DepthwiseConv2dNative", 0, 1, -1, -1},
    {"Conv2DBackpropInput", "DepthwiseConv2dNativeBackpropInput", -1, 1, 2, 0},
    {"Conv2DBackpropFilter", "DepthwiseConv2dNativeBackpropFilter", 0, -1, 2, 1},
};

constexpr int kChannels = 3;  // the axis in NHWC images, and in filters by output channel

class GroupedConvolution {
 public:
  GroupedConvolution(GraphEditor& graph, EditNode& node, const ConvolutionOp& op)
      : graph_(graph), build_(graph, node), node_(node), op_(op) {}

  bool Lower() {
    const auto* format = node_.FindAttr<std::string>("data_format");
    if (format != nullptr && *format != "NHWC") return false;
    const Shape& image = SpecOf(op_.image).shape;
    const Shape& filter = SpecOf(op_.filter).shape;
    if (image.rank() != 4 || filter.rank() != 4 || filter.dim(2) == 0) return false;
    const int64_t groups = image.dim(kChannels) / filter.dim(2);
    if (groups <= 1) return false;
    if (filter.dim(2) == 1) {
      Depthwise(filter);
    } else {
      ByGroup(groups);
    }
    return true;
  }

 private:
  const TensorSpec& SpecOf(int input) const {
    return input < 0 ? node_.outputs[0] : node_.inputs[static_cast<size_t>(input)].spec();
  }

  // Filters [height, width, 1, channels · multiplier] become depthwise filters [height, width, channels, multiplier].
  void Depthwise(const Shape& filter) {
    const int64_t channels = SpecOf(op_.image).shape.dim(kChannels);
    const std::vector<int64_t> of_depthwise = {filter.dim(0), filter.dim(1), channels, filter.dim(3) / channels};
    std::vector<Edge> inputs = node_.inputs;
    TensorSpec result = node_.outputs[0];
    if (op_.filter >= 0) {
      Edge& own = inputs[static_cast<size_t>(op_.filter)];
      own = build_.Reshape(own, of_depthwise);
    } else {
      result.shape = Shape(of_depthwise);
    }
    if (op_.sizes >= 0) inputs[static_cast<size_t>(op_.sizes)] = build_.Ints(DimsOf(result.shape));
    AttrMap attrs = AttrsOfOne();
    attrs.erase("use_cudnn_on_gpu");
    const Edge made = build_.Add(op_.depthwise, std::move(inputs), std::move(attrs), {result})->output();
    build_.BecomeIdentity(op_.filter >= 0 ? made : build_.Reshape(made, DimsOf(node_.outputs[0].shape)));
  }

  static std::vector<int64_t> DimsOf(const Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }

  // A transposed convolution may state only its image's height and width, and its groups as an attribute; here all
  // sizes are given.
  AttrMap AttrsOfOne() const {
    AttrMap attrs = node_.attrs;
    attrs.erase("_groups");
    return attrs;
  }

  void ByGroup(int64_t groups) {
    std::vector<std::vector<Edge>> parts(node_.inputs.size());
    for (size_t input = 0; input < node_.inputs.size(); ++input) {
      if (static_cast<int>(input) != op_.sizes) parts[input] = build_.Split(node_.inputs[input], kChannels, groups);
    }
    TensorSpec result = node_.outputs[0];
    std::vector<int64_t> dims = DimsOf(result.shape);
    dims[kChannels] /= groups;
    result.shape = Shape(dims);
    std::vector<Edge> made;
    for (size_t group = 0; group < static_cast<size_t>(groups); ++group) {
      std::vector<Edge> inputs;
      for (size_t input = 0; input < parts.size(); ++input)
        inputs.push_back(parts[input].empty() ? build_.Ints(dims) : parts[input][group]);
      made.push_back(build_.Add(op_.op, std::move(inputs), AttrsOfOne(), {result})->output());
    }
    made.push_back(build_.Int(kChannels));
    graph_.Become(node_, "ConcatV2", std::move(made), {{"T", result.dtype}, {"Tidx", DType::kInt32}, {"N", groups}});
  }

  GraphEditor& graph_;
  Builder build_;
  EditNode& node_;
  const ConvolutionOp& op_;
};

bool LowerConvolution(GraphEditor& graph, EditNode& node) {
  for (const ConvolutionOp& op : kConvolutions)
    if (op.op == node.type()) return GroupedConvolution(graph, node, op).Lower();
  return false;
}

}  // namespace

Status LowerForGpu(GraphEditor& graph, PassContext& context) {
  if (context.kernels.device != Device::kCuda) return absl::OkStatus();
  for (EditNode* node : graph.Nodes()) {
    if (node->removed || node->fed) continue;
    const std::string op(node->type());
    if (op == "Einsum" ? LowerEinsum(graph, *node) : LowerConvolution(graph, *node))
      context.log.push_back(fmt::format("{}: {} by ops that a device has", node->name, op));
  }
  return absl::OkStatus();
}

}  // namespace rivulet
