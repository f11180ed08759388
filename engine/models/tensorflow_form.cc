#include "engine/models/tensorflow_form.h"

#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "engine/graph/function_builder.h"
#include "engine/graph/inference.h"
#include "engine/graph/scope.h"
#include "engine/layers/scalar.h"

namespace rivulet {
namespace {

// One node's replacement in the making.
class FormBuilder {
 public:
  FormBuilder(const Scope& scope, const Node& node, std::vector<Output> inputs)
      : scope_(scope), node_(node), inputs_(std::move(inputs)) {}

  Output input(size_t i) const { return inputs_[i]; }
  template <typename T>
  const T& attr(const std::string& name) const {
    return node_.attr<T>(name);
  }
  Output Op(std::string_view op, std::vector<Output> inputs, AttrMap attrs = {}) const {
    return scope_.Op(op, std::move(inputs), std::move(attrs));
  }
  Output Number(Output like, double value) const { return ScalarLike(scope_, like, value); }
  Output Int(int32_t value) const { return scope_.Const(Tensor::Scalar(value)); }
  Output Ints(std::vector<int32_t> values) const {
    return scope_.Const(
        Tensor::Of<int32_t>(Shape({static_cast<int64_t>(values.size())}), std::span<const int32_t>(values)));
  }
  Output Mul(Output a, Output b) const { return Op("Mul", {a, b}); }
  Output Add(Output a, Output b) const { return Op("AddV2", {a, b}); }
  Output Sub(Output a, Output b) const { return Op("Sub", {a, b}); }
  // An optional input that is a vector without elements.
  bool IsLeftOut(size_t i) const {
    const Shape& shape = inputs_[i].shape();
    return shape.known_rank() && shape.rank() == 1 && shape.dim(0) == 0;
  }
  const Scope& scope() const { return scope_; }
  const Node& node() const { return node_; }

 private:
  const Scope& scope_;
  const Node& node_;
  std::vector<Output> inputs_;
};

// By port; an output that is empty has no form.
using Forms = std::vector<Output>;

// x · P(X <= x), as Keras composes it.
StatusOr<Forms> GeluForm(const FormBuilder& b) {
  const Output x = b.input(0);
  Output share;
  if (b.attr<bool>("approximate")) {
    const Output cube = b.Mul(b.Mul(b.Mul(x, x), x), b.Number(x, 0.044715));
    share = b.Op("Tanh", {b.Mul(b.Add(x, cube), b.Number(x, 0.79788456080286535588))});
  } else {
    share = b.Op("Erf", {b.Mul(x, b.Number(x, 0.70710678118654752440))});
  }
  return Forms{b.Mul(b.Mul(x, b.Number(x, 0.5)), b.Add(share, b.Number(x, 1)))};
}

StatusOr<Forms> LayerNormForm(const FormBuilder& b) {
  const Output x = b.input(0);
  if (!x.shape().known_rank()) return Unimplemented("the rank of its input is not known");
  int64_t begin = b.attr<int64_t>("begin_norm_axis");
  if (begin < 0) begin += x.shape().rank();
  std::vector<int32_t> axes;
  for (auto axis = static_cast<int32_t>(begin); axis < x.shape().rank(); ++axis) axes.push_back(axis);
  const Output over = b.Ints(axes);
  const Output mean = b.Op("Mean", {x, over}, {{"keep_dims", true}});
  const Output centered = b.Sub(x, mean);
  const Output variance = b.Op("Mean", {b.Op("Square", {centered}), over}, {{"keep_dims", true}});
  const Output inverse = b.Op("Rsqrt", {b.Add(variance, b.Number(x, static_cast<double>(b.attr<float>("epsilon"))))});
  const Output y = b.Add(b.Mul(b.Mul(centered, inverse), b.input(1)), b.input(2));
  return Forms{y, mean, inverse};
}

StatusOr<Forms> AttentionForm(const FormBuilder& b) {
  const Output query = b.input(0), key = b.input(1), value = b.input(2), mask = b.input(3);
  const Shape &heads = query.shape(), &shared = key.shape();
  if (!heads.known_rank() || !shared.known_rank() || heads.dim(1) != shared.dim(1))
    return Unimplemented("heads that share keys");
  if (heads.dim(3) == kUnknownDim) return Unimplemented("a depth that is not known");
  float scale = b.attr<float>("scale");
  if (scale == 0) scale = 1.0f / std::sqrt(static_cast<float>(heads.dim(3)));
  Output scores = b.Op("BatchMatMulV2", {query, key}, {{"adj_y", true}});
  scores = b.Mul(scores, b.Number(scores, static_cast<double>(scale)));
  if (const float cap = b.attr<float>("softcap"); cap != 0) {
    const Output most = b.Number(scores, static_cast<double>(cap));
    scores = b.Mul(most, b.Op("Tanh", {b.Op("RealDiv", {scores, most})}));
  }
  // Invisible positions get a score far below all others, so that their share is 0.
  const Output hidden = b.Number(scores, -1e9);
  Output sees_any;
  if (!b.IsLeftOut(3)) {
    if (mask.dtype() == DType::kBool) {
      scores = b.Op("SelectV2", {mask, scores, hidden});
      sees_any = b.Op("Any", {mask, b.Int(-1)}, {{"keep_dims", true}});
    } else {
      scores = b.Add(scores, mask);
    }
  }
  if (b.attr<bool>("causal")) {
    const auto steps = [&](Output x, int32_t axis) {
      const Output size = b.Op("StridedSlice", {b.Op("Shape", {x}), b.Ints({2}), b.Ints({3}), b.Ints({1})},
                               {{"shrink_axis_mask", int64_t{1}}});
      return b.Op("ExpandDims", {b.Op("Range", {b.Int(0), size, b.Int(1)}), b.Int(axis)});
    };
    const Output last = b.Add(steps(query, 1), b.Int(static_cast<int32_t>(b.attr<int64_t>("causal_offset"))));
    scores = b.Op("SelectV2", {b.Op("LessEqual", {steps(key, 0), last}), scores, hidden});
  }
  Output shares = b.Op("Softmax", {scores});
  if (sees_any) shares = b.Mul(shares, b.Op("Cast", {sees_any}, {{"DstT", shares.dtype()}}));
  return Forms{b.Op("BatchMatMulV2", {shares, value}), {}};
}

// The steps of a sequence as a list, a While over them, and the list of outputs stacked again.
StatusOr<Forms> LstmForm(const FormBuilder& b) {
  for (const char* name : {"activation", "output_activation"})
    if (b.attr<std::string>(name) != "tanh") return Unimplemented("{} '{}'", name, b.attr<std::string>(name));
  if (b.attr<std::string>("recurrent_activation") != "sigmoid")
    return Unimplemented("recurrent_activation '{}'", b.attr<std::string>("recurrent_activation"));
  if (b.attr<float>("clip") != 0) return Unimplemented("clip");
  if (!b.IsLeftOut(4)) return Unimplemented("peepholes");
  if (!b.IsLeftOut(5)) return Unimplemented("sequence_lengths");
  const Output projection = b.input(0), kernel = b.input(1);
  if (!projection.shape().known_rank() || !kernel.shape().IsFullyKnown())
    return Unimplemented("a projection of unknown rank or a kernel of unknown shape");
  const auto units = static_cast<int32_t>(kernel.shape().dim(0));
  const bool time_major = b.attr<bool>("time_major"), reverse = b.attr<bool>("reverse");
  const Output order = b.Ints({1, 0, 2});
  const Output by_time = time_major ? projection : b.Op("Transpose", {projection, order});
  const auto size_of = [&](int32_t axis) {
    return b.Op("StridedSlice", {b.Op("Shape", {by_time}), b.Ints({axis}), b.Ints({axis + 1}), b.Ints({1})},
                {{"shrink_axis_mask", int64_t{1}}});
  };
  const Output steps = size_of(0), batch = size_of(1);
  const Output zeros = b.Op("Fill", {b.Op("Pack", {batch, b.Int(units)}), b.Number(projection, 0)});
  const Output first_h = b.IsLeftOut(2) ? zeros : b.input(2), first_c = b.IsLeftOut(3) ? zeros : b.input(3);
  const DType dtype = projection.dtype();
  const AttrMap element = {{"element_dtype", dtype}};
  const Output row = b.Ints({-1, 4 * units}), state = b.Ints({-1, units});
  AttrMap list = element;
  list["shape_type"] = DType::kInt32;
  const Output inputs = b.Op("TensorListFromTensor", {by_time, row}, list);
  const Output outputs = b.Op("TensorListReserve", {state, steps}, list);
  const Output last = b.Sub(steps, b.Int(1));
  const Shape step_state({kUnknownDim, units});
  const std::vector<Output> results = WhileLoop(
      b.scope(),
      [&](const Scope& s, std::span<const Output> v) {
        return s.Op("Less", {v[0], steps});
      },
      [&](const Scope& s, std::span<const Output> v) {
        // Sizes and axes are the body's own constants: a program must know them.
        const Output one = s.Const(Tensor::Scalar<int32_t>(1));
        const Output element_shape = s.Const(Tensor::Of<int32_t>({2}, {-1, 4 * units}));
        const Output at = reverse ? s.Op("Sub", {last, v[0]}) : v[0];
        const Output given = s.Op("TensorListGetItem", {inputs, at, element_shape}, element);
        const Output gates = s.Op("AddV2", {given, s.Op("MatMul", {v[1], kernel})});
        Node* parts = s.AddNode("Split", {one, gates}, {{"num_split", int64_t{4}}});
        if (parts == nullptr) return std::vector<Output>(v.begin(), v.end());
        const auto gate = [&](int i) { return s.Op("Sigmoid", {parts->output(i)}); };
        const Output kept = s.Op("Mul", {gate(1), v[2]});
        const Output c = s.Op("AddV2", {kept, s.Op("Mul", {gate(0), s.Op("Tanh", {parts->output(2)})})});
        const Output h = s.Op("Mul", {gate(3), s.Op("Tanh", {c})});
        return std::vector{s.Op("AddV2", {v[0], one}), h, c, s.Op("TensorListSetItem", {v[3], at, h}, element)};
      },
      {b.Int(0), first_h, first_c, outputs}, "while", {Shape{}, step_state, step_state, Shape::UnknownRank()});
  if (results.size() != 4) return Internal("the loop gave {} values", results.size());
  const Output stacked = b.Op("TensorListStack", {results[3], state}, element);
  return Forms{time_major ? stacked : b.Op("Transpose", {stacked, order}), results[1], results[2], {}, {}};
}

using MakeForm = StatusOr<Forms> (*)(const FormBuilder&);

MakeForm FormOf(std::string_view op) {
  static const std::map<std::string_view, MakeForm> kForms = {{"Gelu", GeluForm},
                                                              {"LayerNorm", LayerNormForm},
                                                              {"ScaledDotProductAttention", AttentionForm},
                                                              {"LSTM", LstmForm}};
  const auto found = kForms.find(op);
  return found == kForms.end() ? nullptr : found->second;
}

// Ops that TensorFlow does not have.
bool IsOurs(std::string_view op) {
  static const std::set<std::string_view> kOurs = {"AllFinite",    "GRU",           "GroupNorm",       "HardSigmoid",
                                                   "InstanceNorm", "RmsNorm",       "SimpleRNN",       "Swish",
                                                   "Mish",         "TakeAlongAxis", "ScatterAlongAxis"};
  return kOurs.contains(op) || (op.starts_with("_Fused"));
}

// Returns true if outputs that only Rivulet's op has, for a backward pass, are used.
bool UsesMore(const Graph& graph, const Node& node) {
  const size_t made = node.type() == "LSTM" || node.type() == "LayerNorm" ? 3 : 1;
  for (size_t port = made; port < node.outputs().size(); ++port)
    if (!graph.Consumers(const_cast<Node&>(node).output(static_cast<int>(port))).empty()) return true;
  return false;
}

}  // namespace

StatusOr<TensorFlowGraph> TensorFlowForm(const Graph& graph) {
  TensorFlowGraph result;
  Graph& form = result.graph;
  std::set<std::string> foreign;
  for (const auto& [name, function] : graph.functions()) RIVULET_RETURN_IF_ERROR(form.AddFunction(function));
  std::map<std::pair<const Node*, int>, Output> known;
  std::map<const Node*, Node*> copies;
  std::vector<Node*> all;
  for (const auto& node : graph.nodes()) all.push_back(node.get());
  for (Node* node : graph.TopologicalOrder(all)) {
    std::vector<Output> inputs;
    for (const Output& input : node->inputs()) {
      inputs.push_back(known.at({input.node, input.port}));
    }
    const auto copy_node = [&]() -> Status {
      NodeSpec spec{node->name(),  std::string(node->type()), inputs,        {},
                    node->attrs(), node->source_line(),       node->device()};
      for (Node* before : node->control_inputs()) spec.control_inputs.push_back(copies.at(before));
      RIVULET_ASSIGN_OR_RETURN(Node * copy, form.AddNode(std::move(spec)));
      copies[node] = copy;
      for (int port = 0; port < static_cast<int>(copy->outputs().size()); ++port)
        known[{node, port}] = copy->output(port);
      return absl::OkStatus();
    };
    const MakeForm make = FormOf(node->type());
    if (make == nullptr || UsesMore(graph, *node)) {
      if (make != nullptr || IsOurs(node->type())) foreign.insert(std::string(node->type()));
      RIVULET_RETURN_IF_ERROR(copy_node());
      continue;
    }
    const Scope scope = Scope(form).SubScope(node->name());
    StatusOr<Forms> outputs = make(FormBuilder(scope, *node, inputs));
    if (absl::IsUnimplemented(outputs.status())) {
      foreign.insert(std::string(node->type()));
      RIVULET_RETURN_IF_ERROR(copy_node());
      continue;
    }
    RIVULET_RETURN_IF_ERROR(Annotate(outputs.status(), DescribeNode(*node)));
    RIVULET_RETURN_IF_ERROR(Annotate(scope.status(), DescribeNode(*node)));
    // Callers fetch or feed the tensor by the node's name.
    RIVULET_ASSIGN_OR_RETURN(
        Node * named, form.AddNode({node->name(), "Identity", {outputs->front()}, {}, {}, node->source_line(), ""}));
    copies[node] = named;
    outputs->front() = named->output();
    for (size_t port = 0; port < outputs->size(); ++port) known[{node, static_cast<int>(port)}] = (*outputs)[port];
  }
  result.foreign.assign(foreign.begin(), foreign.end());
  return result;
}

}  // namespace rivulet
