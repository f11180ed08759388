// Sizes of a node's outputs as expressions in its inputs' sizes, without a rule for any
// op. The op's shape function is evaluated at points where each symbol has a number. The
// polynomial through the results is the size, if it is also correct at two further points.
// A size that is no such polynomial, such as one after a stride, gets a new symbol.
#include <algorithm>
#include <map>

#include "engine/graph/op.h"
#include "engine/graph/symbolic_values.h"

namespace rivulet {
namespace {

constexpr size_t kMaxSymbolsPerNode = 4;  // limit for one node: the points are the subsets of its symbols

// A node as seen by its shape function at one point.
class PointInference final : public InferenceContext {
 public:
  PointInference(const Node& node, std::vector<Shape> shapes, std::vector<std::optional<Tensor>> values)
      : node_(node), shapes_(std::move(shapes)), values_(std::move(values)), outputs_(node.outputs().size()) {
    for (Shape& output : outputs_) output = Shape::UnknownRank();
  }
  std::string_view node_name() const override { return node_.name(); }
  int num_inputs() const override { return static_cast<int>(shapes_.size()); }
  const Shape& input(int i) const override { return shapes_[static_cast<size_t>(i)]; }
  DType input_dtype(int i) const override { return node_.input(i).dtype(); }
  const Tensor* input_value(int i) const override {
    const Node& from = *node_.input(i).node;
    if (from.type() == "Const") return from.FindAttr<Tensor>("value");
    const auto& value = values_[static_cast<size_t>(i)];
    return value ? &*value : nullptr;
  }
  const AttrMap& attrs() const override { return node_.attrs(); }
  void set_output(int i, Shape shape) override { outputs_[static_cast<size_t>(i)] = std::move(shape); }
  const std::vector<Shape>& outputs() const { return outputs_; }

 private:
  const Node& node_;
  std::vector<Shape> shapes_;
  std::vector<std::optional<Tensor>> values_;
  std::vector<Shape> outputs_;
};

// The inputs of a node, as expressions.
struct SymbolicInputs {
  std::vector<std::optional<std::vector<Dimension>>> sizes;
  std::vector<const Elements*> values;
};

std::optional<Tensor> TensorAt(const Elements& elements, DType dtype, std::span<const int64_t> point) {
  Tensor tensor(dtype, elements.shape);
  for (size_t i = 0; i < elements.values.size(); ++i) {
    const std::optional<int64_t> value = elements.values[i].At(point);
    if (!value) return std::nullopt;
    if (dtype == DType::kInt64)
      tensor.flat<int64_t>()[i] = *value;
    else if (dtype == DType::kInt32)
      tensor.flat<int32_t>()[i] = static_cast<int32_t>(*value);
    else
      tensor.flat<bool>()[i] = *value != 0;
  }
  return tensor;
}

// nullopt: the op refuses these sizes.
std::optional<std::vector<Shape>> ShapesAt(const Node& node, const SymbolicInputs& inputs,
                                           std::span<const int64_t> point) {
  std::vector<Shape> shapes;
  std::vector<std::optional<Tensor>> values;
  for (size_t i = 0; i < inputs.sizes.size(); ++i) {
    shapes.push_back(Shape::UnknownRank());
    if (inputs.sizes[i]) {
      std::vector<int64_t> dims;
      for (const Dimension& size : *inputs.sizes[i]) {
        const std::optional<int64_t> value = size.At(point);
        if (!value || *value < 0) return std::nullopt;
        dims.push_back(*value);
      }
      shapes.back() = Shape(std::move(dims));
    }
    values.push_back(inputs.values[i] == nullptr ? std::nullopt
                                                 : TensorAt(*inputs.values[i], node.inputs()[i].dtype(), point));
  }
  PointInference context(node, std::move(shapes), std::move(values));
  if (!node.op().shape(context).ok()) return std::nullopt;
  return context.outputs();
}

// The polynomial, linear in each symbol, whose values at base + each subset of the symbols are `values`, ordered by
// subsets as binary numbers: Newton's form, expanded.
std::optional<Dimension> Through(std::vector<int64_t> values, std::span<const int> symbols,
                                 std::span<const int64_t> base) {
  const size_t points = values.size();
  for (size_t i = 0; i < symbols.size(); ++i)  // differences along each symbol in turn
    for (size_t subset = 0; subset < points; ++subset)
      if ((subset >> i & 1) != 0) values[subset] -= values[subset ^ (size_t{1} << i)];
  Dimension sum;
  for (size_t subset = 0; subset < points; ++subset) {
    std::optional<Dimension> term = Dimension(values[subset]);
    for (size_t i = 0; term && i < symbols.size(); ++i) {
      if ((subset >> i & 1) == 0) continue;
      const auto distance = Dimension::OfSymbol(symbols[i]).Minus(base[static_cast<size_t>(symbols[i]) / 2]);
      term = distance ? term->Times(*distance) : std::nullopt;
    }
    const std::optional<Dimension> next = term ? sum.Plus(*term) : std::nullopt;
    if (!next) return std::nullopt;
    sum = *next;
  }
  return sum;
}

}  // namespace

void SymbolicValues::FollowOp(const Node& node, Facts& facts) {
  const auto ports = static_cast<int>(node.outputs().size());
  bool unknown = false;
  for (int port = 0; port < ports; ++port) {
    const Shape& shape = shape_of_({const_cast<Node*>(&node), port});
    unknown = unknown || (shape.known_rank() && !shape.IsFullyKnown());
  }
  if (!unknown || !node.op().shape || node.inputs().empty() || bound_.contains(&node)) return;

  SymbolicInputs inputs;
  std::vector<int> symbols;
  for (const Output& input : node.inputs()) {
    inputs.sizes.emplace_back();
    inputs.values.push_back(nullptr);
    if (const std::vector<Dimension>* sizes = SizesOf(input)) inputs.sizes.back() = *sizes;
    if (inputs.sizes.back())
      for (const Dimension& size : *inputs.sizes.back()) size.AddSymbols(symbols);
  }
  if (symbols.size() > kMaxSymbolsPerNode) return;
  for (size_t i = 0; i < inputs.values.size(); ++i) {
    const auto found = facts_.find(node.inputs()[i].node);
    if (found == facts_.end()) continue;
    const auto& value = found->second.values[static_cast<size_t>(node.inputs()[i].port)];
    if (!value) continue;
    std::vector<int> more = symbols;
    for (const Dimension& element : value->values) element.AddSymbols(more);
    // No point represents an element with arbitrary values.
    if (more.size() > kMaxSymbolsPerNode || std::ranges::any_of(more, [](int symbol) { return symbol % 2 != 0; }))
      continue;
    symbols = std::move(more);
    inputs.values[i] = &*value;
  }

  // Points far from 0, so that windows fit their images, and with different remainders.
  std::vector<int64_t> base(symbols_.size(), 1), second = base, third = base;
  for (size_t i = 0; i < symbols.size(); ++i) {
    const auto at = static_cast<size_t>(symbols[i]) / 2;
    base[at] = 97 + 10 * static_cast<int64_t>(i);
    second[at] = 338 + 7 * static_cast<int64_t>(i);
    third[at] = 1021 - 18 * static_cast<int64_t>(i);
  }
  std::vector<std::vector<Shape>> fitted;
  for (size_t subset = 0; subset < size_t{1} << symbols.size(); ++subset) {
    std::vector<int64_t> point = base;
    for (size_t i = 0; i < symbols.size(); ++i)
      if ((subset >> i & 1) != 0) ++point[static_cast<size_t>(symbols[i]) / 2];
    std::optional<std::vector<Shape>> shapes = ShapesAt(node, inputs, point);
    if (!shapes) return;
    fitted.push_back(*std::move(shapes));
  }
  const auto at_second = ShapesAt(node, inputs, second), at_third = ShapesAt(node, inputs, third);
  if (!at_second || !at_third) return;

  for (int port = 0; port < ports; ++port) {
    const auto slot = static_cast<size_t>(port);
    const Output output{const_cast<Node*>(&node), port};
    const Shape& shape = shape_of_(output);
    if (!shape.known_rank()) continue;
    const auto rank_differs = [&](const Shape& other) { return other.rank() != shape.rank() || !other.known_rank(); };
    if (rank_differs((*at_second)[slot]) || rank_differs((*at_third)[slot]) ||
        std::ranges::any_of(fitted, [&](const auto& shapes) { return rank_differs(shapes[slot]); }))
      continue;
    std::vector<Dimension> sizes;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (shape.dim(axis) != kUnknownDim) {
        sizes.emplace_back(shape.dim(axis));
        continue;
      }
      std::vector<int64_t> values;
      for (const auto& shapes : fitted) values.push_back(shapes[slot].dim(axis));
      const int64_t seconds = (*at_second)[slot].dim(axis), thirds = (*at_third)[slot].dim(axis);
      std::optional<Dimension> size;
      if (std::ranges::find(values, kUnknownDim) == values.end()) size = Through(values, symbols, base);
      const bool fits = size && size->At(second) == seconds && size->At(third) == thirds;
      sizes.push_back(fits ? *size : SizeSymbol(output, axis));
    }
    facts.sizes[slot] = std::move(sizes);
  }
}

}  // namespace rivulet
