// Channels last. Kernels of convolutions and pools use NHWC and rearrange NCHW tensors before and after; a chain of
// NCHW ops then does so once at its ends instead of at each op. Exact: the kernels in between are the same.
//
// Every NCHW op becomes Transpose, the op on NHWC, Transpose. Transposes move through elementwise ops, and a transpose
// cancels with its inverse.
#include <algorithm>
#include <array>
#include <map>

#include "engine/passes/constant_values.h"
#include "engine/passes/pass.h"

namespace rivulet {
namespace {

constexpr std::array<int64_t, 4> kToNchw = {0, 3, 1, 2}, kToNhwc = {0, 2, 3, 1};

// Inputs and attributes of an op that depend on the layout.
struct LayoutOp {
  std::string_view op;
  std::vector<size_t> images;  // inputs
  int sizes = -1;              // index of an input with the sizes of an image
  bool image_result = true;
};

const LayoutOp* FindLayoutOp(std::string_view op) {
  static const std::vector<LayoutOp> ops = {{"Conv2D", {0}},
                                            {"Conv2DBackpropInput", {2}, 0},
                                            {"Conv2DBackpropFilter", {0, 2}, -1, false},
                                            {"DepthwiseConv2dNative", {0}},
                                            {"DepthwiseConv2dNativeBackpropInput", {2}, 0},
                                            {"DepthwiseConv2dNativeBackpropFilter", {0, 2}, -1, false},
                                            {"BiasAdd", {0}},
                                            {"MaxPool", {0}},
                                            {"MaxPoolGrad", {0, 1, 2}},
                                            {"AvgPool", {0}},
                                            {"AvgPoolGrad", {1}, 0}};
  const auto found = std::ranges::find(ops, op, &LayoutOp::op);
  return found == ops.end() ? nullptr : &*found;
}

bool IsElementwise(std::string_view op) {
  static constexpr std::string_view kOps[] = {"Relu",         "Relu6",
                                              "LeakyRelu",    "Elu",
                                              "Selu",         "Tanh",
                                              "Sigmoid",      "Softplus",
                                              "Softsign",     "Neg",
                                              "Exp",          "Log",
                                              "Abs",          "Square",
                                              "Sqrt",         "Rsqrt",
                                              "Cast",         "Identity",
                                              "AddV2",        "Add",
                                              "Sub",          "Mul",
                                              "RealDiv",      "Maximum",
                                              "Minimum",      "ReluGrad",
                                              "TanhGrad",     "Relu6Grad",
                                              "EluGrad",      "SigmoidGrad",
                                              "SoftplusGrad", "SqrtGrad",
                                              "RsqrtGrad",    "ReciprocalGrad",
                                              "AddN"};
  return std::ranges::find(kOps, op) != std::end(kOps);
}

Shape Permuted(const Shape& shape, const std::array<int64_t, 4>& order) {
  Shape permuted = shape;
  for (int axis = 0; axis < 4; ++axis)
    permuted.set_dim(axis, shape.dim(static_cast<int>(order[static_cast<size_t>(axis)])));
  return permuted;
}

// The ends of chains are not searched. Every op transposes its own tensors, and transposes that meet their inverse
// cancel; the others remain at the ends of chains. This is correct for any graph, including branches and sums, where a
// search would need many cases.
class LayoutChoice {
 public:
  LayoutChoice(GraphEditor& graph, PassContext& context) : graph_(graph), context_(context) {}

  void Run() {
    const std::vector<EditNode*> nodes = graph_.Nodes();
    // A single op saves nothing if its kernel supports both layouts.
    const ptrdiff_t fewest = context_.kernels.device == Device::kCuda ? 1 : 2;
    if (std::ranges::count_if(nodes, [&](const EditNode* node) { return IsNchw(*node); }) < fewest) return;
    for (EditNode* node : nodes) {
      if (node->removed || node->fed) continue;
      if (IsNchw(*node)) {
        Convert(*node);
      } else {
        LetThrough(*node);
      }
    }
  }

 private:
  static bool IsNchw(const EditNode& node) {
    if (node.fed || node.outputs.size() != 1) return false;
    const LayoutOp* layout = FindLayoutOp(node.type());
    const std::string* format = node.FindAttr<std::string>("data_format");
    if (layout == nullptr || format == nullptr || *format != "NCHW") return false;
    if (layout->sizes >= 0) {
      const auto sizes = ConstantIntegers(node.inputs[static_cast<size_t>(layout->sizes)]);
      if (!sizes || sizes->size() != 4) return false;
    }
    return std::ranges::all_of(layout->images, [&](size_t input) { return node.inputs[input].shape().rank() == 4; });
  }

  // The input of `edge` if it is a transpose to NCHW.
  static Edge Source(Edge edge) {
    if (edge.node->type() != "Transpose" || edge.node->fed) return {};
    const auto order = ConstantPermutation(edge.node->inputs[1], edge.shape().rank());
    return order && std::ranges::equal(*order, kToNchw) ? edge.node->inputs[0] : Edge();
  }

  // A constant per use: the common subexpressions pass merges them.
  Edge Permutation(const std::array<int64_t, 4>& order, const EditNode& beside) {
    const Tensor value = Tensor::Of<int32_t>({4}, {static_cast<int32_t>(order[0]), static_cast<int32_t>(order[1]),
                                                   static_cast<int32_t>(order[2]), static_cast<int32_t>(order[3])});
    return graph_.AddConst(beside.name + "/perm", value, beside)->output();
  }

  // One transpose per tensor, for any number of convolutions that read it.
  Edge ToNhwc(Edge edge, const EditNode& beside) {
    if (const Edge source = Source(edge); source.node != nullptr) return source;
    Edge& known = to_nhwc_[{edge.node, edge.port}];
    if (known.node == nullptr) {
      // Directly after its producer, so that it precedes all users.
      EditNode* transpose = graph_.Add(edge.node->name + "/nhwc", "Transpose", {edge, Permutation(kToNhwc, beside)},
                                       {{"T", edge.dtype()}, {"Tperm", DType::kInt32}},
                                       {{edge.dtype(), Permuted(edge.shape(), kToNhwc)}}, beside);
      known = transpose->output();
    }
    return known;
  }

  // `node` becomes the transpose of `made` to NCHW.
  void BecomeTranspose(EditNode& node, Edge made) {
    const Edge perm = Permutation(kToNchw, node);
    graph_.Become(node, "Transpose", {made, perm}, {{"T", made.dtype()}, {"Tperm", DType::kInt32}});
  }

  void Convert(EditNode& node) {
    const LayoutOp& layout = *FindLayoutOp(node.type());
    std::vector<Edge> inputs = node.inputs;
    for (const size_t input : layout.images) inputs[input] = ToNhwc(inputs[input], node);
    if (layout.sizes >= 0) {
      Edge& sizes = inputs[static_cast<size_t>(layout.sizes)];
      const std::vector<int64_t> nchw = *ConstantIntegers(sizes);
      std::vector<int32_t> nhwc;
      for (const int64_t axis : kToNhwc) nhwc.push_back(static_cast<int32_t>(nchw[static_cast<size_t>(axis)]));
      sizes = graph_.AddConst(node.name + "/sizes", Tensor::Of<int32_t>({4}, nhwc), node)->output();
    }
    AttrMap attrs = node.attrs;
    attrs["data_format"] = std::string("NHWC");
    for (const char* name : {"strides", "ksize", "dilations", "_dilations"}) {
      const auto found = attrs.find(name);
      if (found == attrs.end()) continue;
      auto* values = std::get_if<std::vector<int64_t>>(&found->second);
      if (values == nullptr || values->size() != 4) continue;
      const std::vector<int64_t> nchw = *values;
      for (size_t axis = 0; axis < 4; ++axis) (*values)[axis] = nchw[static_cast<size_t>(kToNhwc[axis])];
    }
    // Two numbers per axis, which move with the axis.
    for (const char* name : {"explicit_paddings", "_explicit_paddings"}) {
      const auto found = attrs.find(name);
      if (found == attrs.end()) continue;
      auto* values = std::get_if<std::vector<int64_t>>(&found->second);
      if (values == nullptr || values->size() != 8) continue;
      const std::vector<int64_t> nchw = *values;
      for (size_t axis = 0; axis < 4; ++axis) {
        (*values)[2 * axis] = nchw[2 * static_cast<size_t>(kToNhwc[axis])];
        (*values)[2 * axis + 1] = nchw[2 * static_cast<size_t>(kToNhwc[axis]) + 1];
      }
    }
    context_.log.push_back(fmt::format("{}: this {} works on NHWC", node.name, node.type()));
    if (!layout.image_result) {
      graph_.Become(node, node.type(), std::move(inputs), std::move(attrs));
      return;
    }
    EditNode* made = graph_.Add(node.name + "/nhwc", node.type(), std::move(inputs), std::move(attrs),
                                {{node.outputs[0].dtype, Permuted(node.outputs[0].shape, kToNhwc)}}, node);
    // The new node does the work now, so it gets the control inputs.
    for (EditNode* before : node.control_inputs) graph_.AddControlInput(*made, *before);
    BecomeTranspose(node, made->output());
  }

  // Whether the transpose is unused once it has moved through all possible ops.
  static bool Vanishes(const EditNode& transpose) {
    constexpr size_t kMaxUsers = 64;
    if (transpose.pinned || transpose.control_uses > 0 || transpose.users.size() > kMaxUsers) return false;
    return std::ranges::all_of(transpose.users, [&](const EditNode* user) {
      if (user->removed || IsElementwise(user->type()) || user->type() == "ConcatV2" || IsNchw(*user)) return true;
      return std::ranges::none_of(user->inputs, [&](const Edge& input) { return input.node == &transpose; });
    });
  }

  // Moves transposes behind an elementwise op of transposes, or
  // of one and scalars. Only if one of them is removed thereby: a
  // transpose costs a pass over memory. If it stayed for another
  // user, the move would add a transpose without removing one.
  void LetThrough(EditNode& node) {
    const bool concat = node.type() == "ConcatV2";
    if (node.outputs.size() != 1 || node.outputs[0].shape.rank() != 4 || (!concat && !IsElementwise(node.type())))
      return;
    const size_t values = node.inputs.size() - (concat ? 1 : 0);
    std::vector<Edge> inputs = node.inputs;
    bool any = false;
    for (size_t i = 0; i < values; ++i) {
      if (!concat && inputs[i].shape().elements() == 1 && inputs[i].shape().rank() == 0) continue;
      const Edge source = Source(inputs[i]);
      if (source.node == nullptr) return;
      if (!concat && inputs[i].shape() != node.outputs[0].shape) return;
      any = any || Vanishes(*inputs[i].node);
      inputs[i] = source;
    }
    if (!any) return;
    if (concat) {
      const auto axis = ConstantIntegers(inputs.back());
      if (!axis || axis->size() != 1) return;
      const int64_t nchw = (*axis)[0] < 0 ? (*axis)[0] + 4 : (*axis)[0];
      if (nchw < 0 || nchw > 3) return;
      const auto nhwc = static_cast<int32_t>(std::ranges::find(kToNhwc, nchw) - kToNhwc.begin());
      inputs.back() = graph_.AddConst(node.name + "/axis", Tensor::Scalar(nhwc), node)->output();
    }
    AttrMap attrs = node.attrs;
    if (concat) attrs["Tidx"] = DType::kInt32;
    EditNode* made = graph_.Add(node.name + "/nhwc", node.type(), std::move(inputs), std::move(attrs),
                                {{node.outputs[0].dtype, Permuted(node.outputs[0].shape, kToNhwc)}}, node);
    for (EditNode* before : node.control_inputs) graph_.AddControlInput(*made, *before);
    context_.log.push_back(fmt::format("{}: lets the layout through", node.name));
    BecomeTranspose(node, made->output());
  }

  GraphEditor& graph_;
  PassContext& context_;
  std::map<std::pair<const EditNode*, int>, Edge> to_nhwc_;
};

}  // namespace

Status ChooseLayout(GraphEditor& graph, PassContext& context) {
  LayoutChoice(graph, context).Run();
  return absl::OkStatus();
}

}  // namespace rivulet
