#include "engine/onnx/export/batch_shapes.h"

#include "engine/graph/variable_name.h"
#include "engine/program/concrete_graph.h"

namespace rivulet::onnx {
namespace {

// Sizes that nothing else in a model is likely to be a multiple of.
constexpr int64_t kOneBatch = 7919, kOtherBatch = 7927;

StatusOr<std::map<std::pair<const Node*, int>, Shape>> ShapesFor(const Graph& graph,
                                                                 const std::vector<const Node*>& placeholders,
                                                                 const std::vector<Output>& outputs, int64_t batch) {
  Signature signature;
  for (const Node* node : placeholders) {
    TensorSpec spec = node->outputs()[0];
    if (spec.shape.known_rank() && spec.shape.rank() > 0 && spec.shape.dim(0) == kUnknownDim)
      spec.shape.set_dim(0, batch);
    RIVULET_RETURN_IF_ERROR(spec.shape.CheckedElements().status());
    signature.feeds.push_back({node->name(), std::move(spec)});
  }
  for (const Output& output : outputs) signature.fetches.push_back(output.name());
  size_t offset = 0;
  std::map<std::string, bool, std::less<>> bound;
  for (const auto& node : graph.nodes()) {
    if (node->type() != "VarHandleOp") continue;
    const std::string name(VariableName(*node));
    if (!bound.emplace(name, true).second) continue;
    const Shape& shape = node->attr<Shape>("shape");
    RIVULET_ASSIGN_OR_RETURN(const int64_t elements, shape.CheckedElements());
    signature.variables.push_back({name, 0, offset, {VariableDType(*node), shape}});
    offset += (static_cast<size_t>(elements) * SizeOf(VariableDType(*node)) + 63) / 64 * 64;
  }
  const CompileOptions options;
  RIVULET_ASSIGN_OR_RETURN(const ConcreteGraph concrete, ConcreteGraph::Build(graph, signature, options));
  std::map<std::pair<const Node*, int>, Shape> shapes;
  const auto keep = [&](Node* node) {
    for (int port = 0; port < static_cast<int>(node->outputs().size()); ++port)
      shapes[{node, port}] = concrete.spec(concrete.value(node->output(port))).shape;
  };
  for (const Node* node : concrete.schedule()) keep(const_cast<Node*>(node));
  for (const Node* node : placeholders) keep(const_cast<Node*>(node));
  return shapes;
}

}  // namespace

BatchShapes::BatchShapes(const Graph& graph, const std::vector<const Node*>& placeholders,
                         const std::vector<Output>& outputs) {
  auto one = ShapesFor(graph, placeholders, outputs, kOneBatch);
  if (!one.ok()) return;  // shapes stay those of the graph
  auto other = ShapesFor(graph, placeholders, outputs, kOtherBatch);
  if (!other.ok()) return;
  of_one_ = *std::move(one);
  of_other_ = *std::move(other);
}

std::vector<SymbolicDim> BatchShapes::Of(Output tensor) const {
  std::vector<SymbolicDim> dims;
  const Shape& shape = tensor.shape();
  const auto one = of_one_.find({tensor.node, tensor.port});
  const auto other = of_other_.find({tensor.node, tensor.port});
  const bool inferred = one != of_one_.end() && other != of_other_.end() && one->second.rank() == other->second.rank();
  if (!inferred) {
    if (!shape.known_rank()) return dims;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const bool batch = shape.dim(axis) == kUnknownDim && axis == 0 && tensor.node->type() == "Placeholder";
      dims.push_back({shape.dim(axis), batch ? "N" : ""});
    }
    return dims;
  }
  for (int axis = 0; axis < one->second.rank(); ++axis) {
    const int64_t a = one->second.dim(axis), b = other->second.dim(axis);
    SymbolicDim dim;
    if (a == b) {
      dim.size = a;
    } else if (a % kOneBatch == 0 && b % kOtherBatch == 0 && a / kOneBatch == b / kOtherBatch) {
      dim.symbol = a == kOneBatch ? "N" : fmt::format("{}*N", a / kOneBatch);
    }
    dims.push_back(std::move(dim));
  }
  return dims;
}

}  // namespace rivulet::onnx
