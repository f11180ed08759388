#include "engine/graph/symbolic_values.h"

#include <algorithm>
#include <limits>

#include "engine/graph/op.h"

namespace rivulet {
namespace {

constexpr size_t kMaxVisits = 1024;  // limit for one question with symbolic sizes: each added node may ask

bool IsAboutShapes(std::string_view op) {
  return op == "Shape" || op == "Size" || op == "Rank" || op == "TensorListLength";
}

bool FitsType(const Dimension& value, DType dtype) {
  if (!value.IsNumber() || dtype != DType::kInt32) return true;
  return value.number() >= std::numeric_limits<int32_t>::min() && value.number() <= std::numeric_limits<int32_t>::max();
}

}  // namespace

Dimension SymbolicValues::NewSymbol(Output output, int index, bool is_size, bool fed) {
  symbols_.push_back({output, index, is_size, fed, ""});
  return Dimension::OfSymbol(2 * (static_cast<int>(symbols_.size()) - 1) + (is_size ? 0 : 1));
}

void SymbolicValues::Name(Output output, int axis, std::string_view name) {
  const auto [found, inserted] = named_.try_emplace(std::string(name), 2 * static_cast<int>(symbols_.size()));
  if (inserted) symbols_.push_back({output, axis, true, false, std::string(name)});
  bound_[output.node].push_back({{output.port, axis}, found->second});
}

Dimension SymbolicValues::SizeSymbol(Output output, int axis) {
  if (const auto bound = bound_.find(output.node); bound != bound_.end())
    for (const auto& [place, symbol] : bound->second)
      if (place == std::pair(output.port, axis)) return Dimension::OfSymbol(symbol);
  return NewSymbol(output, axis, /*is_size=*/true, /*fed=*/false);
}

std::vector<Dimension> SymbolicValues::OwnSizes(Output output) {
  const Shape& shape = shape_of_(output);
  std::vector<Dimension> sizes;
  for (int axis = 0; axis < shape.rank(); ++axis)
    sizes.push_back(shape.dim(axis) == kUnknownDim ? SizeSymbol(output, axis) : Dimension(shape.dim(axis)));
  return sizes;
}

bool SymbolicValues::HasElements(Output output) const {
  const DType dtype = output.dtype();
  if (dtype != DType::kInt32 && dtype != DType::kInt64 && dtype != DType::kBool) return false;
  const Shape& shape = shape_of_(output);
  if (!shape.IsFullyKnown()) return false;
  const StatusOr<int64_t> elements = shape.CheckedElements();
  return elements.ok() && *elements <= kMaxSymbolicElements;
}

// Skips inputs without information: known sizes, and too many elements.
bool SymbolicValues::NeedsInput(const Node& node, Output input) const {
  if (HasElements(input)) return !IsAboutShapes(node.type());
  return sizes_ == Sizes::kFollowOps && shape_of_(input).known_rank() && !shape_of_(input).IsFullyKnown();
}

// Visits inputs before their consumers, without recursion: a chain may be as long as the model.
const SymbolicValues::Facts& SymbolicValues::Visit(const Node& root) {
  if (const auto found = facts_.find(&root); found != facts_.end()) return found->second;
  struct Open {
    const Node* node;
    size_t next = 0;
  };
  std::vector<Open> stack = {{&root}};
  std::unordered_map<const Node*, bool> open = {{&root, true}};
  while (!stack.empty()) {
    Open& top = stack.back();
    if (top.next < top.node->inputs().size()) {
      const Output input = top.node->inputs()[top.next++];
      const bool too_many = sizes_ == Sizes::kOwn && open.size() >= kMaxVisits;
      if (!too_many && NeedsInput(*top.node, input) && !facts_.contains(input.node) &&
          open.emplace(input.node, true).second)
        stack.push_back({input.node});
      continue;
    }
    const Node* node = top.node;
    stack.pop_back();
    Facts facts = Compute(*node);
    facts_.emplace(node, std::move(facts));
  }
  return facts_.at(&root);
}

SymbolicValues::Facts SymbolicValues::Compute(const Node& node) {
  const auto ports = static_cast<int>(node.outputs().size());
  Facts facts{std::vector<std::optional<std::vector<Dimension>>>(static_cast<size_t>(ports)),
              std::vector<std::optional<Elements>>(static_cast<size_t>(ports))};
  Node* const own = const_cast<Node*>(&node);  // Output has no const variant; the node is not changed
  if (sizes_ == Sizes::kFollowOps) FollowOp(node, facts);
  for (int port = 0; port < ports; ++port) {
    const Output output{own, port};
    const Shape& shape = shape_of_(output);
    auto& sizes = facts.sizes[static_cast<size_t>(port)];
    if (sizes_ == Sizes::kFollowOps && shape.known_rank() && !sizes) sizes = OwnSizes(output);
    if (!HasElements(output)) continue;
    std::vector<const Elements*> inputs;
    for (const Output& input : node.inputs()) {
      const auto found = facts_.find(input.node);
      const bool known = found != facts_.end() && found->second.values[static_cast<size_t>(input.port)];
      inputs.push_back(known ? &*found->second.values[static_cast<size_t>(input.port)] : nullptr);
    }
    std::optional<std::vector<Dimension>> asked;
    if (IsAboutShapes(node.type())) {
      if (const std::vector<Dimension>* of_input = SizesOf(node.input(0))) asked = *of_input;
    }
    const ElementRule rule{node, port, shape, inputs, asked ? &*asked : nullptr};
    MaybeElements follows = MovedElements(rule);
    if (!follows) follows = ComputedElements(rule);
    const auto count = static_cast<size_t>(shape.elements());
    Elements elements{shape, {}};
    const bool fed = IsFed(node);
    for (size_t i = 0; i < count; ++i) {
      const bool has = follows && follows->size() == count && (*follows)[i] && FitsType(*(*follows)[i], output.dtype());
      elements.values.push_back(has ? *(*follows)[i] : NewSymbol(output, static_cast<int>(i), false, fed));
    }
    facts.values[static_cast<size_t>(port)] = std::move(elements);
  }
  return facts;
}

const std::vector<Dimension>* SymbolicValues::SizesOf(Output output) {
  const Shape& shape = shape_of_(output);
  if (!shape.known_rank()) return nullptr;
  if (shape.IsFullyKnown()) {
    answer_.assign(shape.dims().begin(), shape.dims().end());
  } else if (sizes_ == Sizes::kOwn) {
    auto& ports = own_sizes_[output.node];
    ports.resize(output.node->outputs().size());
    auto& sizes = ports[static_cast<size_t>(output.port)];
    if (!sizes) sizes = OwnSizes(output);
    answer_ = *sizes;
  } else {
    answer_ = *Visit(*output.node).sizes[static_cast<size_t>(output.port)];
  }
  return &answer_;
}

const Elements* SymbolicValues::ValueOf(Output output) {
  if (!output || !HasElements(output)) return nullptr;
  const auto& value = Visit(*output.node).values[static_cast<size_t>(output.port)];
  return value ? &*value : nullptr;
}

std::optional<Tensor> SymbolicValues::NumbersOf(Output output) {
  const Elements* const value = ValueOf(output);
  if (value == nullptr || !std::ranges::all_of(value->values, &Dimension::IsNumber)) return std::nullopt;
  Tensor tensor(output.dtype(), value->shape);
  const auto fill = [&]<typename T>(std::span<T> into) {
    std::ranges::transform(value->values, into.begin(),
                           [](const Dimension& element) { return static_cast<T>(element.number()); });
  };
  if (output.dtype() == DType::kInt64) {
    fill(tensor.flat<int64_t>());
  } else if (output.dtype() == DType::kInt32) {
    fill(tensor.flat<int32_t>());
  } else {
    fill(tensor.flat<bool>());
  }
  return tensor;
}

std::string SymbolicValues::Describe(const Dimension& dimension) const {
  return dimension.ToString([&](int id) {
    const Symbol& symbol = this->symbol(id);
    if (!symbol.name.empty()) return symbol.name;
    return fmt::format("{} {} of '{}'", symbol.is_size ? "axis" : "element", symbol.index, symbol.output.name());
  });
}

bool SymbolicValues::IsFed(const Node& root) {
  std::vector<std::pair<const Node*, size_t>> stack = {{&root, 0}};
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    const auto [known, inserted] = fed_.try_emplace(node, false);
    if (next == 0 && !inserted) {
      stack.pop_back();
      continue;
    }
    if (node->type() == "Placeholder" || node->op().stateful) known->second = true;
    if (next == node->inputs().size() || known->second || IsAboutShapes(node->type())) {
      const bool fed = known->second;
      stack.pop_back();
      if (fed && !stack.empty()) fed_[stack.back().first] = true;
      continue;
    }
    const Node* const input = node->inputs()[next++].node;
    if (const auto before = fed_.find(input); before != fed_.end()) {
      if (before->second) known->second = true;
    } else {
      stack.emplace_back(input, 0);
    }
  }
  return fed_.at(&root);
}

}  // namespace rivulet
