// Fuses MatMul or Conv2D with the addition of a bias and a following Relu into one kernel, which writes only the final
// result. Names and attributes are TensorFlow's (_FusedMatMul, _FusedConv2D).
#include "engine/passes/pass.h"

namespace rivulet {
namespace {

std::string_view FusedOp(std::string_view op) {
  if (op == "MatMul") return "_FusedMatMul";
  if (op == "Conv2D") return "_FusedConv2D";
  return "";
}
bool IsFused(std::string_view op) { return op == "_FusedMatMul" || op == "_FusedConv2D"; }

class ProductFusion {
 public:
  ProductFusion(GraphEditor& graph, PassContext& context) : graph_(graph), context_(context) {}

  void Visit(EditNode& node) {
    if (node.fed) return;
    const std::string_view op = node.type();
    if (op == "BiasAdd" || op == "AddV2" || op == "Add") {
      if (!FuseBias(node, 0) && op != "BiasAdd") FuseBias(node, 1);
    } else if (op == "Relu" || op == "Relu6") {
      FuseActivation(node);
    }
  }

 private:
  // Requires a native kernel for the type. float16 uses float32 kernels throughout, as does half precision on a GPU,
  // where element chains handle these ops anyway. In bfloat16 a native kernel may round the product, its sum with the
  // bias, or only the result, at most as often as separate ops. Portable kernels keep every rounding, because models
  // with fixed expected bits were trained with them.
  bool HasKernel(std::string_view op, DType dtype) const {
    const Device device = context_.kernels.device;
    const bool native = device == Device::kCpu && !context_.kernels.portable;
    const bool known = dtype == DType::kFloat32 || dtype == DType::kFloat64 || (dtype == DType::kBFloat16 && native);
    return known && GraphEditor::HasOp(op) && KernelRegistry::Global().IsRegisteredFor(op, device, dtype);
  }

  // Fuses the addition of a bias in `node` into the product that is its input `product`. The sums of a product are in
  // registers when they are final; adding the bias there saves a pass over the result in memory, and the activation
  // after it another. The order of operations per element is unchanged, and so are the bits.
  bool FuseBias(EditNode& node, size_t product) {
    const Edge result = node.inputs[product], bias = node.inputs[1 - product];
    const EditNode& inner = *result.node;
    const std::string_view fused = FusedOp(inner.type());
    // A product with other readers must be stored as it is.
    if (fused.empty() || inner.fed || !GraphEditor::OnlyUse(result)) return false;
    if (result.spec() != node.outputs[0] || !HasKernel(fused, result.dtype())) return false;
    const std::string* format = inner.FindAttr<std::string>("data_format");
    if (node.type() == "BiasAdd") {
      const std::string* bias_format = node.FindAttr<std::string>("data_format");
      if (format != nullptr && bias_format != nullptr && *format != *bias_format) return false;
    } else if (format != nullptr && *format != "NHWC") {
      return false;
    }
    // Only true biases, with one number per column or channel. Other broadcasts are valid in the graph but not for the
    // kernel.
    const Shape& shape = result.shape();
    const int axis = format != nullptr && *format == "NCHW" ? 1 : shape.rank() - 1;
    if (bias.shape() != Shape{shape.dim(axis)}) return false;

    AttrMap attrs;
    const OpDef& def = *OpRegistry::Global().Find(fused);
    for (const auto& [name, value] : inner.attrs)
      if (name.starts_with("_") || def.FindAttr(name) != nullptr) attrs.emplace(name, value);
    attrs["num_args"] = int64_t{1};
    attrs["fused_ops"] = std::vector<std::string>{"BiasAdd"};
    context_.log.push_back(fmt::format("{}: {} and its bias in one", node.name, inner.type()));
    Absorb(node, *result.node, fused, {inner.inputs[0], inner.inputs[1], bias}, std::move(attrs));
    return true;
  }

  void FuseActivation(EditNode& node) {
    const Edge result = node.inputs[0];
    const EditNode& inner = *result.node;
    if (!IsFused(inner.type()) || inner.fed || !GraphEditor::OnlyUse(result)) return;
    const auto* fused = inner.FindAttr<std::vector<std::string>>("fused_ops");
    if (fused == nullptr || *fused != std::vector<std::string>{"BiasAdd"}) return;
    AttrMap attrs = inner.attrs;
    attrs["fused_ops"] = std::vector<std::string>{"BiasAdd", std::string(node.type())};
    context_.log.push_back(fmt::format("{}: {} and its {} in one", node.name, inner.type(), node.type()));
    Absorb(node, *result.node, inner.type(), inner.inputs, std::move(attrs));
  }

  // `node` becomes `op`, which includes the work of `inner`, whose only user it is.
  void Absorb(EditNode& node, EditNode& inner, std::string_view op, std::vector<Edge> inputs, AttrMap attrs) {
    for (EditNode* before : inner.control_inputs) graph_.AddControlInput(node, *before);
    graph_.Become(node, op, std::move(inputs), std::move(attrs));
  }

  GraphEditor& graph_;
  PassContext& context_;
};

}  // namespace

Status FuseProducts(GraphEditor& graph, PassContext& context) {
  ProductFusion fusion(graph, context);
  for (EditNode* node : graph.Nodes())
    if (!node->removed) fusion.Visit(*node);
  return absl::OkStatus();
}

}  // namespace rivulet
