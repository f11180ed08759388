#include "engine/gradients/mixed_precision.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "engine/graph/op.h"
#include "engine/graph/scope.h"

namespace rivulet {
namespace {

// Three roles suffice. Products gain from 16 bits and sum in float32 internally. Ops that pass values on only move,
// compare or add once, and lose nothing in 16 bits if their neighbours use 16 bits. Sums, losses, exponentials and
// normalisations would lose digits and stay wide.
enum class Role { kProduct, kPassesOn, kWide };

Role RoleOf(std::string_view op) {
  static constexpr std::string_view kProducts[] = {"MatMul",
                                                   "BatchMatMulV2",
                                                   "Einsum",
                                                   "Conv2D",
                                                   "Conv2DBackpropInput",
                                                   "DepthwiseConv2dNative",
                                                   "DepthwiseConv2dNativeBackpropInput"};
  static constexpr std::string_view kPassOn[] = {
      "BiasAdd",  "Relu",         "Relu6", "LeakyRelu", "MaxPool",   "AvgPool",  "Reshape", "Squeeze", "ExpandDims",
      "Identity", "StopGradient", "Pad",   "PadV2",     "Transpose", "ConcatV2", "AddV2",   "Add"};
  if (std::ranges::find(kProducts, op) != std::end(kProducts)) return Role::kProduct;
  if (std::ranges::find(kPassOn, op) != std::end(kPassOn)) return Role::kPassesOn;
  return Role::kWide;
}

// A convolution of an image with few channels sums too few terms to gain from 16 bits, and its result is large: it
// would be converted repeatedly.
constexpr int64_t kFewChannels = 4;
bool IsFirstConvolution(const Node& node) {
  if (node.type() != "Conv2D") return false;
  const Shape& filter = node.input(1).shape();
  return filter.known_rank() && filter.rank() == 4 && filter.dim(2) != kUnknownDim && filter.dim(2) <= kFewChannels;
}

// Copies a graph node by node.
// The forward graph is rewritten before gradients are made, so that the backward pass follows by itself: the gradient
// of a Cast is a Cast, a 16-bit product has 16-bit products as gradients, and variables behind a cast get gradients in
// float32.
class Rewriter {
 public:
  Rewriter(const Graph& from, DType compute) : from_(from), compute_(compute) {}

  StatusOr<Graph> Run() {
    std::vector<Node*> all;
    for (const auto& node : from_.nodes()) all.push_back(node.get());
    wide_.resize(all.size(), nullptr);
    narrow_.resize(all.size(), nullptr);
    for (const Node* node : from_.TopologicalOrder(all)) RIVULET_RETURN_IF_ERROR(Copy(*node));
    return std::move(to_);
  }

 private:
  static size_t Id(const Node* node) { return static_cast<size_t>(node->id()); }
  bool IsNarrow(const Output& x) const { return x.port == 0 && narrow_[Id(x.node)] != nullptr; }

  // These ops follow their inputs: they are narrow only if the tensors they join are, otherwise conversions would cost
  // more than they gain. Variables and constants are small and do not count.
  bool RunsNarrow(const Node& node) const {
    const Role role = RoleOf(node.type());
    if (role == Role::kWide || node.outputs().size() != 1 || node.outputs()[0].dtype != DType::kFloat32) return false;
    if (role == Role::kProduct) return !IsFirstConvolution(node);
    bool any = false;
    for (const Output& input : node.inputs()) {
      if (input.dtype() != DType::kFloat32) continue;
      const std::string_view source = input.node->type();
      if (!IsNarrow(input) && source != "ReadVariableOp" && source != "Const") return false;
      any = any || IsNarrow(input);
    }
    return any;
  }

  Status Copy(const Node& node) {
    const bool narrow = RunsNarrow(node);
    NodeSpec spec{node.name(), std::string(node.type()), {}, {}, node.attrs(), node.source_line(), node.device()};
    for (const Node* before : node.control_inputs()) spec.control_inputs.push_back(wide_[Id(before)]);
    for (const Output& input : node.inputs()) {
      Output copied{wide_[Id(input.node)], input.port};
      if (narrow && input.dtype() == DType::kFloat32) {
        RIVULET_ASSIGN_OR_RETURN(copied, Narrowed(input));
      }
      spec.inputs.push_back(copied);
    }
    if (!narrow) {
      RIVULET_ASSIGN_OR_RETURN(wide_[Id(&node)], to_.AddNode(std::move(spec)));
      return absl::OkStatus();
    }
    spec.name = NameFor(node.name());
    for (const AttrDef& attr : node.op().attrs) {
      const auto found = spec.attrs.find(attr.name);
      if (found == spec.attrs.end()) continue;
      DType* dtype = std::get_if<DType>(&found->second);
      if (dtype != nullptr && *dtype == DType::kFloat32) *dtype = compute_;
    }
    RIVULET_ASSIGN_OR_RETURN(narrow_[Id(&node)], to_.AddNode(std::move(spec)));
    // Whoever knows the old tensor by its name finds it, as float32.
    // Feeds, fetches and losses go by name. Where nobody asks, the cast is dead and pruned.
    RIVULET_ASSIGN_OR_RETURN(wide_[Id(&node)],
                             AddCast(node, node.name(), narrow_[Id(&node)]->output(), DType::kFloat32));
    return absl::OkStatus();
  }

  // `x` of the old graph, in the 16-bit type.
  StatusOr<Output> Narrowed(const Output& x) {
    if (IsNarrow(x)) return narrow_[Id(x.node)]->output();
    const auto known = casts_.find({x.node->id(), x.port});
    if (known != casts_.end()) return known->second->output();
    const std::string name = x.port == 0 ? x.node->name() : fmt::format("{}_{}", x.node->name(), x.port);
    RIVULET_ASSIGN_OR_RETURN(Node * cast, AddCast(*x.node, NameFor(name), {wide_[Id(x.node)], x.port}, compute_));
    casts_[{x.node->id(), x.port}] = cast;
    return cast->output();
  }

  StatusOr<Node*> AddCast(const Node& origin, std::string name, Output x, DType to) {
    NodeSpec spec{std::move(name), "Cast", {x}, {}, {{"DstT", to}}, origin.source_line(), origin.device()};
    return to_.AddNode(std::move(spec));
  }

  // A name that neither graph has.
  std::string NameFor(const std::string& base) const {
    std::string name = fmt::format("{}/{}", base, Name(compute_));
    for (int i = 1; from_.Find(name) != nullptr || to_.Find(name) != nullptr; ++i)
      name = fmt::format("{}/{}_{}", base, Name(compute_), i);
    return name;
  }

  const Graph& from_;
  const DType compute_;
  Graph to_;
  std::vector<Node*> wide_;    // by id of the old node: the one with its name
  std::vector<Node*> narrow_;  // by id of the old node: the one that computes in 16 bits, if it does
  std::map<std::pair<int, int>, Node*> casts_;
};

bool Is16BitMatMul(const Node& node) {
  return node.type() == "MatMul" &&
         (node.attr<DType>("T") == DType::kBFloat16 || node.attr<DType>("T") == DType::kFloat16);
}

}  // namespace

StatusOr<Graph> ToMixedPrecision(const Graph& graph, DType compute) {
  if (compute != DType::kBFloat16 && compute != DType::kFloat16)
    return InvalidArgument("mixed precision computes in bfloat16 or float16, not {}", Name(compute));
  return Rewriter(graph, compute).Run();
}

Status WidenWeightGradients(Graph& graph, std::span<Output> gradients) {
  const Scope scope(graph);
  std::map<std::pair<int, int>, Output> widened;  // each factor once
  for (Output& gradient : gradients) {
    if (!gradient || gradient.node->type() != "Cast" || gradient.dtype() != DType::kFloat32) continue;
    const Node& product = *gradient.node->input(0).node;
    if (!Is16BitMatMul(product)) continue;
    std::vector<Output> factors;
    for (const Output& factor : product.inputs()) {
      Output& wide = widened[{factor.node->id(), factor.port}];
      if (!wide) wide = scope.Op("Cast", {factor}, {{"DstT", DType::kFloat32}}, factor.node->name() + "/float32");
      factors.push_back(wide);
    }
    gradient = scope.Op(
        "MatMul", factors,
        {{"transpose_a", product.attr<bool>("transpose_a")}, {"transpose_b", product.attr<bool>("transpose_b")}},
        product.name() + "/float32");
    RIVULET_RETURN_IF_ERROR(scope.status());
  }
  return absl::OkStatus();
}

}  // namespace rivulet
