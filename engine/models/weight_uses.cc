#include "engine/models/weight_uses.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "engine/graph/inference.h"

namespace rivulet {
namespace {

using WeightAxes = std::vector<int64_t>;

constexpr std::array<std::string_view, 6> kRecurrentOps = {"LSTM",          "GRU",          "SimpleRNN",
                                                           "LSTMBlockCell", "GRUBlockCell", "LSTMGrad"};
constexpr std::array<std::string_view, 5> kAskShape = {"Shape", "ShapeN", "Size", "Rank", "L2Loss"};
constexpr std::array<std::string_view, 4> kReshapes = {"Reshape", "ExpandDims", "Squeeze", "EnsureShape"};
constexpr std::array<std::string_view, 4> kHandOn = {"ReadVariableOp", "Identity", "Cast", "StopGradient"};

bool IsOneOf(std::string_view type, std::span<const std::string_view> types) {
  return std::ranges::find(types, type) != types.end();
}

WeightAxes AxesInOrder(int rank) {
  WeightAxes axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

bool IsIdentity(const WeightAxes& axes) { return std::ranges::is_sorted(axes); }

std::optional<WeightAxes> PermutationOf(const Node& transpose) {
  const std::optional<Tensor> value = ConstantValue(transpose.input(1), [](Output output) { return output.shape(); });
  if (!value) return std::nullopt;
  WeightAxes axes;
  if (value->dtype() == DType::kInt32) axes.assign(value->flat<int32_t>().begin(), value->flat<int32_t>().end());
  if (value->dtype() == DType::kInt64) axes.assign(value->flat<int64_t>().begin(), value->flat<int64_t>().end());
  return axes;
}

// The layout behind `node`, which takes a value of layout `layout` as its first input; nothing: it takes another
// course.
std::optional<WeightLayout> Follow(const WeightLayout& layout, const Node& node) {
  const std::string_view type = node.type();
  if (IsOneOf(type, kHandOn)) return layout;
  const Shape& shape = node.outputs()[0].shape;
  if (!shape.IsFullyKnown()) return std::nullopt;
  WeightLayout next = layout;
  next.after = shape;
  if (IsOneOf(type, kReshapes)) {
    if (!IsIdentity(layout.perm)) return next;
    next.before = shape;
    next.perm = AxesInOrder(shape.rank());
    return next;
  }
  if (type != "Transpose" || layout.after != layout.transposed()) return std::nullopt;
  const std::optional<WeightAxes> axes = PermutationOf(node);
  if (!axes || std::ssize(*axes) != shape.rank()) return std::nullopt;
  for (size_t i = 0; i < axes->size(); ++i) next.perm[i] = layout.perm[static_cast<size_t>((*axes)[i])];
  return next;
}

// Labels of "ab,bc->ac" without an ellipsis, of which one of two operands is the weight.
bool ReadEinsum(const Node& node, WeightUse& use) {
  std::string equation = node.attr<std::string>("equation");
  std::erase(equation, ' ');
  const size_t comma = equation.find(','), arrow = equation.find("->");
  if (node.inputs().size() != 2 || comma == std::string::npos || arrow == std::string::npos ||
      equation.find('.') != std::string::npos)
    return false;
  const std::string left = equation.substr(0, comma), right = equation.substr(comma + 1, arrow - comma - 1);
  const std::string result = equation.substr(arrow + 2);
  const std::string &weight = use.input == 0 ? left : right, &other = use.input == 0 ? right : left;
  for (size_t axis = 0; axis < weight.size(); ++axis) {
    const bool in_other = other.find(weight[axis]) != std::string::npos;
    const bool in_result = result.find(weight[axis]) != std::string::npos;
    if (!in_other && !in_result) return false;  // summed on its own
    (in_other && in_result ? use.batch : in_other ? use.in : use.out).push_back(static_cast<int64_t>(axis));
  }
  return !use.in.empty() && !use.out.empty();
}

// Whether `use`, of which product, input and layout are given, is of a kind that is known; else why it is not.
std::string_view Read(WeightUse& use) {
  const Node& node = *use.product;
  const std::string_view type = node.type();
  const int rank = use.layout.after.rank();
  const WeightAxes axes = AxesInOrder(rank);
  if (type == "MatMul" || type == "BatchMatMul" || type == "BatchMatMulV2") {
    if (rank < 2) return "multiplies by it as a vector";
    const bool plain = type == "MatMul";
    const std::string name = use.input == 0 ? (plain ? "transpose_a" : "adj_x") : (plain ? "transpose_b" : "adj_y");
    const bool turned = node.attr<bool>(name) != (use.input == 0);
    use.kind = ProductKind::kMatrix;
    use.batch.assign(axes.begin(), axes.end() - 2);
    use.in = {rank - (turned ? 1 : 2)};
    use.out = {rank - (turned ? 2 : 1)};
    return "";
  }
  if (type == "Einsum") {
    use.kind = ProductKind::kEinsum;
    return ReadEinsum(node, use) ? "" : "has an equation of another form than two operands without an ellipsis";
  }
  if (type == "GatherV2" || type == "Gather" || type == "ResourceGather") {
    if (use.input != 0) return "takes it as indices";
    use.kind = ProductKind::kRows;
    use.in = {0};
    use.out = {1};
    if (rank != 2) return "takes rows of more than one axis";
    if (const auto* batched = node.FindAttr<int64_t>("batch_dims"); batched != nullptr && *batched != 0)
      return "takes rows batch by batch";
    if (type == "GatherV2") {
      const auto axis = ConstantValue(node.input(2), [](Output output) { return output.shape(); });
      if (!axis || axis->elements() != 1 ||
          (axis->dtype() == DType::kInt32 ? axis->flat<int32_t>()[0] : axis->flat<int64_t>()[0]) != 0)
        return "takes columns";
    }
    return "";
  }
  if (type == "Conv2D" || type == "Conv3D") {
    if (use.input != 1) return "convolves it";
    use.kind = ProductKind::kConvolution;
    use.in.assign(axes.begin(), axes.end() - 1);
    use.out = {rank - 1};
    const Shape& image = node.input(0).shape();
    const auto* format = node.FindAttr<std::string>("data_format");
    const bool channels_first = format != nullptr && format->starts_with("NC");
    const int64_t channels = image.known_rank() ? image.dim(channels_first ? 1 : image.rank() - 1) : kUnknownDim;
    return channels == use.layout.after.dim(rank - 2) ? "" : "is a convolution with groups";
  }
  if (type == "DepthwiseConv2dNative") return "is a depthwise convolution";
  if (type.starts_with("Conv") && type.find("Backprop") != std::string_view::npos) return "is a transposed convolution";
  return "is no product";
}

}  // namespace

std::string_view Name(ProductKind kind) {
  static constexpr std::string_view kNames[] = {"matrix", "einsum", "rows", "convolution"};
  return kNames[static_cast<size_t>(kind)];
}

Shape WeightLayout::transposed() const {
  WeightAxes dims;
  for (const int64_t axis : perm) dims.push_back(before.dim(static_cast<int>(axis)));
  return Shape(std::move(dims));
}

int64_t WeightUse::Elements(const std::vector<int64_t>& axes) const {
  int64_t elements = 1;
  for (const int64_t axis : axes) elements *= layout.after.dim(static_cast<int>(axis));
  return elements;
}

WeightUses WeightUsesOf(const Graph& graph, Node* handle) {
  WeightUses uses;
  const Shape& shape = handle->outputs()[0].shape;
  const auto unfollowed = [&](const Node* node, std::string_view why) {
    if (uses.unfollowed != nullptr) return;
    uses.unfollowed = node;
    uses.why = why;
  };
  std::vector<std::pair<Output, WeightLayout>> open = {{handle->output(), {shape, AxesInOrder(shape.rank()), shape}}};
  while (!open.empty()) {
    const auto [value, layout] = open.back();
    open.pop_back();
    for (Node* consumer : graph.Consumers(value)) {
      const std::string_view type = consumer->type();
      if (IsOneOf(type, kAskShape)) continue;
      for (size_t i = 0; i < consumer->inputs().size(); ++i) {
        if (consumer->inputs()[i] != value) continue;
        if (IsOneOf(type, kRecurrentOps)) {
          uses.recurrent = consumer;
          continue;
        }
        const bool has_body = std::ranges::any_of(
            consumer->attrs(), [](const auto& attr) { return std::holds_alternative<FunctionRef>(attr.second); });
        if (has_body) {
          unfollowed(consumer, "takes it into the body of a function");
          continue;
        }
        // Of a handle only reads count.
        if (value == handle->output() && type != "ReadVariableOp" && type != "ResourceGather") continue;
        if (const auto next = i == 0 ? Follow(layout, *consumer) : std::nullopt; next) {
          open.emplace_back(consumer->output(), *next);
          continue;
        }
        WeightUse use{.product = consumer, .input = static_cast<int>(i), .layout = layout};
        if (const std::string_view why = Read(use); why.empty()) {
          uses.products.push_back(std::move(use));
        } else {
          unfollowed(consumer, why);
        }
      }
    }
  }
  std::ranges::sort(uses.products, {}, [](const WeightUse& use) { return use.product->id(); });
  return uses;
}

}  // namespace rivulet
