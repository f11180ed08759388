#include "engine/graph/drawing.h"

#include <algorithm>

namespace rivulet {
namespace {

constexpr int64_t kDrawnElements = 1024;

// A quoted string in DOT.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '\n') {
      quoted += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

std::string Label(const Node& node) {
  std::string label = fmt::format("{}\n{}", node.type(), node.name());
  for (const TensorSpec& output : node.outputs()) {
    if (output.dtype == DType::kResource) continue;
    label += fmt::format("\n{}{}", Name(output.dtype), output.shape.ToString());
  }
  return label;
}

}  // namespace

std::string ToDot(const Graph& graph) {
  std::string dot = "digraph rivulet {\n  node [shape=box, fontname=\"sans-serif\", fontsize=10];\n";
  for (const auto& node : graph.nodes()) {
    const bool source = node->inputs().empty();
    dot += fmt::format("  n{} [label={}{}];\n", node->id(), Quoted(Label(*node)), source ? ", style=rounded" : "");
  }
  for (const auto& node : graph.nodes()) {
    for (const Output& input : node->inputs()) dot += fmt::format("  n{} -> n{};\n", input.node->id(), node->id());
    for (const Node* before : node->control_inputs())
      dot += fmt::format("  n{} -> n{} [style=dashed];\n", before->id(), node->id());
  }
  return dot + "}\n";
}

StatusOr<Graph> WithOutputShapes(const Graph& graph) {
  std::vector<Node*> all, made(graph.nodes().size());
  for (const auto& node : graph.nodes()) all.push_back(node.get());
  Graph drawn;
  for (const Node* node : graph.TopologicalOrder(all)) {
    NodeSpec spec{node->name(), std::string(node->type()), {}, {}, node->attrs(), node->source_line(), node->device()};
    for (const Output& input : node->inputs())
      spec.inputs.push_back({made[static_cast<size_t>(input.node->id())], input.port});
    for (const Node* before : node->control_inputs())
      spec.control_inputs.push_back(made[static_cast<size_t>(before->id())]);
    const Tensor* value = node->FindAttr<Tensor>("value");
    if (value != nullptr && value->elements() > kDrawnElements) {
      spec.op = "Placeholder";
      spec.attrs = {{"dtype", value->dtype()}, {"shape", value->shape()}};
    }
    std::vector<Shape> shapes;
    for (const TensorSpec& output : node->outputs()) shapes.push_back(output.shape);
    if (!shapes.empty()) spec.attrs["_output_shapes"] = std::move(shapes);
    RIVULET_ASSIGN_OR_RETURN(made[static_cast<size_t>(node->id())], drawn.AddNode(std::move(spec)));
  }
  return drawn;
}

}  // namespace rivulet
